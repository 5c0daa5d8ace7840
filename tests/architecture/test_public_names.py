"""What `import pipeline` offers stays small, explained and real."""

import inspect

import pipeline


def test_the_public_names_are_twenty_at_most() -> None:
    assert 0 < len(pipeline.__all__) <= 20


def test_every_public_name_exists_and_comes_once() -> None:
    assert sorted(set(pipeline.__all__)) == sorted(pipeline.__all__)
    assert [name for name in pipeline.__all__ if not hasattr(pipeline, name)] == []


def test_every_public_class_and_function_says_what_it_is() -> None:
    unexplained = []
    for name in pipeline.__all__:
        thing = getattr(pipeline, name)
        if inspect.isclass(thing):
            methods = [value for key, value in vars(thing).items() if not key.startswith("_")]
            parts = [thing, *(method for method in methods if inspect.isroutine(method))]
        else:
            parts = [thing] if inspect.isroutine(thing) else []
        unexplained += [f"{name}: {part!r}" for part in parts if not part.__doc__]
    assert unexplained == []
