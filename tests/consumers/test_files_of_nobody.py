"""Files whose owner was never written down, and folders whose process was killed, do not stay for good."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from consumers.knowledge.bases.knowledge_bases import ensure_base
from consumers.knowledge.documents.uploading import KnowledgeBaseGone, Upload, take_in_uploads
from consumers.knowledge.long_work import tasks
from consumers.knowledge.upkeep.unowned import remove_unowned
from consumers.scratch import scratch, sweep_scratch
from consumers.services import open_services
from contracts.payloads.maintenance import KnowledgeBaseDelete
from pipeline import Pipeline

from tests.support.standing import let_stand

OWNED = ("originals/one.txt", "k1/picture.png", "tasks/t1/failed.csv")
OF_NOBODY = (
    "originals/two.txt",
    "k2/picture.png",
    "tasks/t2/failed.csv",
    "temporary/a/x.txt",
    "backups/b1/b.zip",
)


@pytest.fixture
async def services(either_database, tmp_path):
    async with Pipeline.open(data_dir=tmp_path / "data") as pipeline, open_services(pipeline) as opened:
        yield opened


async def test_what_somebody_has_stays_and_all_else_goes_once_it_is_old(services):
    await let_stand(services.database, "k1", file_key=OWNED[0])
    async with services.database.transaction() as session:
        job = KnowledgeBaseDelete(tenant_id=1, knowledge_base_id="b1")
        await tasks.register(session, "t1", job, tenant_id=1, kb_id="b1")
    for key in (*OWNED, *OF_NOBODY):
        await services.files.put(key, b"something")
    assert await remove_unowned(services.database, services.files) == 0
    assert await remove_unowned(services.database, services.files, -1) == len(OF_NOBODY)
    assert [await services.files.exists(key) for key in OWNED] == [True] * len(OWNED)
    assert [await services.files.exists(key) for key in OF_NOBODY] == [False] * len(OF_NOBODY)
    assert await remove_unowned(services.database, services.files, -1) == 0


async def test_a_file_sent_into_a_base_that_goes_meanwhile_does_not_stay(services, tmp_path):
    sent = tmp_path / "sent.txt"
    sent.write_text("for a base that is gone")
    with pytest.raises(KnowledgeBaseGone):
        await take_in_uploads(services, "gone", [Upload(path=sent, name="sent.txt")])
    assert await remove_unowned(services.database, services.files, -1) == 1


async def test_a_document_that_came_into_a_base_keeps_its_file(services, tmp_path):
    sent = tmp_path / "sent.txt"
    sent.write_text("for a base that stays")
    async with services.database.transaction() as session:
        kb = await ensure_base(session, 1, "stays")
    await take_in_uploads(services, kb.id, [Upload(path=sent, name="sent.txt")])
    assert await remove_unowned(services.database, services.files, -1) == 0


def test_the_folder_of_a_killed_process_goes_and_that_of_a_living_one_stays(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    code = (
        "import sys\nfrom consumers.scratch import scratch\n"
        "with scratch() as folder:\n    (folder / 'backup.zip').write_text('x')\n    print(flush=True)\n    sys.stdin.read()"
    )
    with (
        subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process,
        scratch() as ours,
    ):
        assert process.stdout
        process.stdout.readline()
        (theirs,) = set(tmp_path.iterdir()) - {ours}
        assert sweep_scratch(0) == 0
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert sweep_scratch() == 0, "it is young"
        assert sweep_scratch(0) == 1
        assert not theirs.exists()
        assert Path(ours).exists()
    assert list(tmp_path.iterdir()) == []
