"""The chart is well-formed and puts dots where the ratios say; the docs keep their text around the generated tables."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from bench import chart
from bench.documents import PAGE, replace
from bench.scaling import Question, Variant, questions

SVG = "{http://www.w3.org/2000/svg}"


def test_chart() -> None:
    engines = {
        "penlight": {"best_s": 0.5},
        "ncnn": {"best_s": 1.0},
        "mnn": {"failed": "<&>"},
        "torch-mobile": {"best_s": 90.0},
    }
    rows = [{"model": "a<b", "threads": threads, "engines": engines} for threads in (1, 2)]
    tree = ElementTree.fromstring(chart.svg({"engines": list(engines), "rows": rows}))
    texts = [element.text for element in tree.iter(f"{SVG}text")]
    assert {"a<b", "1 thread", "2 threads", "ncnn"} <= set(texts)
    titles = [element.text for element in tree.iter(f"{SVG}title")]
    assert titles.count("penlight: 500.00 ms") == 2
    assert len(list(tree.iter(f"{SVG}path"))) == 2, "what is off the scale is an arrow"


def test_position_is_logarithmic_and_stays_on_the_panel() -> None:
    assert chart.position(chart.LEAST) == 0
    assert chart.position(1.0) == pytest.approx(chart.PANEL / 3)
    assert chart.position(1e9) == chart.PANEL


def test_replace_keeps_the_text_around() -> None:
    text = "before\n<!-- models -->\nold\n<!-- end -->\nbetween\n<!-- layers -->\n<!-- end -->\nafter\n"
    assert replace(text, "models", "new") == text.replace("old", "new")
    with pytest.raises(ValueError, match="scaling"):
        replace(text, "scaling", "")


def test_the_page_has_a_place_for_every_run() -> None:
    text = PAGE.read_text()
    for mark in ("models", "int8", "sequences", "layers", "scaling"):
        assert replace(replace(text, mark, "x"), mark, "y") == replace(text, mark, "y")


def test_questions() -> None:
    speed = Question("", Variant("resnet50"), Variant("resnet50", threads=2), "speed-up", 1.8)
    assert speed.answer(0.1, 0.05) == pytest.approx(2.0)
    assert speed.is_met(1.8)
    assert not speed.is_met(1.7)
    batch = Question("", Variant("resnet18"), Variant("resnet18", batch=8), "per pixel", 1.0)
    assert batch.answer(0.1, 0.8) == pytest.approx(1.0)
    assert not batch.is_met(1.01)
    assert len({question.text for question in questions()}) == len(questions())
