"""Which files are found, and which are left out."""

from pathlib import Path

from consumers.knowledge.ingesting import find_files


def names(folder: Path, *paths: Path) -> list[str]:
    return [str(found.path.relative_to(folder)) for found in find_files(paths, leave_out=folder / "data")]


def test_files_are_found_in_the_order_of_their_names_and_each_once(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("b/2.md", "b/1.md", "a.md"):
        (tmp_path / name).touch()
    assert names(tmp_path, tmp_path, tmp_path / "a.md", tmp_path / "b" / ".." / "a.md") == [
        "a.md", "b/1.md", "b/2.md",
    ]  # fmt: skip


def test_hidden_files_and_our_own_folder_are_passed_over_unless_named(tmp_path: Path) -> None:
    for name in (".git", "data"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.md").touch()
    (tmp_path / ".env").touch()
    assert names(tmp_path, tmp_path) == []
    assert names(tmp_path, tmp_path / ".env") == [".env"]


def test_links_between_folders_lead_in_no_circle(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "up").symlink_to(tmp_path)
    (tmp_path / "sub" / "x.md").touch()
    (tmp_path / "sub" / "self").symlink_to(tmp_path / "sub" / "self")
    assert names(tmp_path, tmp_path) == ["sub/self", "sub/x.md"]  # a link that leads nowhere fails as a file


def test_a_folder_that_cannot_be_read_is_said_and_its_neighbours_are_found(tmp_path: Path) -> None:
    (tmp_path / "x.md").touch()
    gone = tmp_path / "gone"
    found = list(find_files([tmp_path, gone], leave_out=tmp_path / "data"))
    assert [one.path.name for one in found] == ["x.md", "gone"]
