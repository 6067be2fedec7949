"""Objects that were saved by __getstate__."""

import numpy as np
import pytest

from penlight.capture.lite import read
from penlight.errors import CaptureError
from penlight.ir.values import ScriptObject
from tests.capture.lite import build, legacy


def made(state: bytes, *instructions: tuple, operators: tuple = (), constants: tuple = ()) -> ScriptObject:
    """The object `inner` of a module whose class has a __setstate__ of these instructions."""
    table = build.code(instructions, operators=operators, constants=constants, types=("List[int]",), registers=2)
    setstate = ("__torch__.N.__setstate__", table, build.schema(("self", "__torch__.N"), ("state", "Any")))
    inner = build.name("__torch__", "N") + b")\x81" + state + b"b"
    program = read(build.program(functions=(build.function(), setstate), data=build.module({"inner": inner})))
    return program.module.attributes["inner"]


def test_a_file_of_torch():
    for version in (8, 9):
        module = read(legacy.FIXTURES / f"saved.v{version}.ptl").module
        inner = module.attributes["inner"]
        weight, training, hook, gain = inner.attributes.values()
        assert (training, hook, gain, inner.has_state) == (True, None, 2.0, False)
        np.testing.assert_array_equal(weight.array(), np.arange(6, dtype=np.float32).reshape(2, 3))


END = (("LOAD", 1, 0), ("RET", 0, 0))
STORE = (("STOREN", 1, 2), ("LOAD", 1, 0), ("LOAD", 2, 0))


def test_slots_come_in_order():
    found = made(build.integer(7), *STORE, ("SET_ATTR", 2, 0), *STORE[1:], ("SET_ATTR", 0, 0), *END)
    assert found.attributes == {"0": 7, "1": None, "2": 7}
    assert list(found.attributes) == ["0", "1", "2"]


def test_branches():
    steps = (
        *STORE,
        ("LOADC", 0, 0),
        ("OP", 0, 0),
        ("JF", 4, 0),
        ("LOADC", 1, 0),
        ("SET_ATTR", 0, 0),
        ("JMP", 3, 0),
        ("LOADC", 2, 0),
        ("SET_ATTR", 0, 0),
        *END,
    )
    for state, expected in ((1, "one"), (2, "other")):
        found = made(build.integer(state), *steps, operators=(("aten::eq", "int", 2),), constants=(1, "one", "other"))
        assert found.attributes == {"0": expected}


@pytest.mark.parametrize(
    "steps",
    [
        (("JMP", 0, 0),),  # for ever
        (("JMP", -5, 0), ("RET", 0, 0)),
        (("LOADC", -1, 0), ("RET", 0, 0)),
        (("LOADC", 99, 0), ("RET", 0, 0)),
        (("SET_ATTR", 1 << 30, 0), ("RET", 0, 0)),
        (*STORE, ("SET_ATTR", 1 << 30, 0), ("RET", 0, 0)),
        (("LOAD", 9, 0), ("RET", 0, 0)),
        (("OP", 0, 0), ("RET", 0, 0)),
        (("LIST_CONSTRUCT", 0, 65535), ("RET", 0, 0)),
        (("TUPLE_CONSTRUCT", -3, 0), ("RET", 0, 0)),
        (("CALL", 0, 0), ("RET", 0, 0)),
        (("DROP", 0, 0), ("DROP", 0, 0), ("DROP", 0, 0), ("RET", 0, 0)),
        (),
    ],
)
def test_what_cannot_be_run_is_left_to_the_vm(steps):
    found = made(build.integer(7), *steps, operators=(("aten::conv2d", "", 6),))
    assert (found.has_state, found.state, found.attributes) == (True, 7, {})


def test_a_state_without_its_method_is_an_error():
    inner = build.name("__torch__", "N") + b")\x81" + build.integer(7) + b"b"
    with pytest.raises(
        CaptureError, match=r"class __torch__.N was saved by __getstate__, but the file has no __setstate__"
    ):
        read(build.program(data=build.module({"inner": inner})))
