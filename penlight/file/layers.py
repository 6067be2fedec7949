"""A file that also returns what every kernel computes: for comparing devices layer by layer. Each value is copied, row-major, into an output
of its own; the nodes are the same, so every device runs the kernels that it would have run. (Values that shared memory or were computed
inside of others have places of their own then: a mistake of the planner may not show.)"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from penlight.errors import LoadError
from penlight.file import format as f
from penlight.file.metadata import sections, with_sections
from penlight.ir.types import DTYPES
from penlight.ops import registry

_COMPARED = {DTYPES[name][0]: 8 * np.dtype(DTYPES[name][1]).itemsize for name in ("f32", "f64", "f16")}  # code -> bits
_SKIPPED = ("pack",)  # no tensor that anybody could read


@dataclass(frozen=True)
class Layer:
    name: str
    key: str
    source: str


def with_layers(image: np.ndarray, method: str = "forward") -> tuple[np.ndarray, list[Layer]]:
    """The file in which `method` returns a list: its own outputs, then the layers."""
    tables = _Tables(image)
    found = [i for i, row in enumerate(tables.rows["METH"]) if tables.text(row["name"]) == method]
    if not found:
        raise LoadError(f"no planned method {method!r}: layers of interpreted methods cannot be shown", "argument")
    return tables.add_layers(found[0])


class _Tables:
    """The tables of a file, to add to."""

    def __init__(self, image: np.ndarray) -> None:
        self.image = image
        self.sections = sections(image)
        self.records = {r.section: r for r in f.RECORDS if r.section in self.sections}
        self.rows = {name: self._rows(name) for name in self.records}
        self.indices = list(np.frombuffer(self.sections["INDX"][1], "<u4"))
        self.strings = bytearray(self.sections["TEXT"][1])

    def _rows(self, name: str) -> list[dict[str, Any]]:
        record, (size, body) = self.records[name], self.sections[name]
        names = [x.name for x in record.fields]
        wide = [body[i : i + size].ljust(record.size, b"\0") for i in range(0, len(body), size)]
        return [dict(zip(names, record.struct.unpack_from(row), strict=True)) for row in wide]

    def text(self, index: int) -> str:
        if index == f.NONE:
            return ""
        row = self.rows["STRS"][index]
        return bytes(self.strings[row["offset"] : row["offset"] + row["size"]]).decode("utf-8", "replace")

    def add(self, section: str, **fields: Any) -> int:
        blank = {x.name: 0 for x in self.records[section].fields}
        self.rows[section].append(blank | fields)
        return len(self.rows[section]) - 1

    def string(self, text: str) -> int:
        encoded = text.encode()
        offset = len(self.strings)
        self.strings += encoded + b"\0"
        return self.add("STRS", offset=offset, size=len(encoded))

    def index_list(self, items: list[int]) -> int:
        self.indices += items
        return len(self.indices) - len(items)

    def listed(self, row: dict[str, Any], what: str, count: str) -> list[int]:
        return [int(i) for i in self.indices[row[what] : row[what] + row[count]]]

    def add_layers(self, index: int) -> tuple[np.ndarray, list[Layer]]:
        method = self.rows["METH"][index]
        code = self.rows["CODE"][method["code"] : method["code"] + method["code_count"]]
        ports = self.rows["PORT"][method["outputs"] : method["outputs"] + method["output_count"]]
        layers: list[Layer] = []
        added: list[int] = []
        for instruction in code:
            if instruction["op"] != f.INSTRUCTIONS["region"]:
                continue
            values = self._open(self.rows["REGN"][instruction["target"]], layers)
            registers = list(range(method["registers"], method["registers"] + len(values)))
            method["registers"] += len(values)
            added += registers
            ports = ports + [{**v, "reserved0": 0, "ranges": f.NONE} for v in values]
            results = self.listed(instruction, "results", "result_count") + registers
            instruction["results"], instruction["result_count"] = self.index_list(results), len(results)
        end = code[-1]
        returned = self.listed(end, "args", "arg_count") + added
        end["args"], end["arg_count"] = self.index_list(returned), len(returned)
        first = len(self.rows["PORT"])
        for port in ports:
            self.add("PORT", **{x.name: port[x.name] for x in f.PORT.fields})
        spec = self.string(json.dumps({"list": list(range(len(ports)))}))
        method.update(outputs=first, output_count=len(ports), output_spec=spec)
        return self._image(), layers

    def _open(self, region: dict[str, Any], layers: list[Layer]) -> list[dict[str, Any]]:
        """Lets a region return copies of its values; gives these values."""
        values = [dict(v) for v in self.rows["VALS"][region["values"] : region["values"] + region["value_count"]]]
        nodes = self.rows["NODE"][region["nodes"] : region["nodes"] + region["node_count"]]
        copies, made = [], []
        for node in nodes:
            key = self.text(node["key"])
            op = key.partition(".")[0]
            if op in _SKIPPED or registry.get(op).sized_by_data:
                continue
            for number in self.listed(node, "outputs", "output_count"):
                value = values[number]
                if value["dtype"] not in _COMPARED:
                    continue
                made.append({**value, "constant": f.NONE, "layout": f.VALUE_LAYOUTS["plain"]})
                target = len(values) + len(made) - 1
                force = self.add("ATTR", name=self.string("force"), kind=f.ATTR_KINDS["bool"], start=1)
                copies.append({
                    "key": self._key(f"copy.b{_COMPARED[value['dtype']]}"), "source": node["source"],
                    "inputs": self.index_list([number]), "input_count": 1,
                    "outputs": self.index_list([target]), "output_count": 1, "attrs": force, "attr_count": 1,
                })  # fmt: skip
                layers.append(Layer(self.text(value["name"]), key, self.text(node["source"])))
        outputs = self.listed(region, "outputs", "output_count") + list(range(len(values), len(values) + len(made)))
        region["values"], region["value_count"] = len(self.rows["VALS"]), len(values) + len(made)
        self.rows["VALS"] += values + made
        region["nodes"], region["node_count"] = len(self.rows["NODE"]), len(nodes) + len(copies)
        self.rows["NODE"] += [dict(n) for n in nodes] + copies
        region["outputs"], region["output_count"] = self.index_list(outputs), len(outputs)
        return made

    def _key(self, key: str) -> int:
        for row in self.rows["KEYS"]:
            if self.text(row["key"]) == key:
                return int(row["key"])
        self.add("KEYS", key=self.string(key))
        return int(self.rows["KEYS"][-1]["key"])

    def _image(self) -> np.ndarray:
        new = {"TEXT": bytes(self.strings), "INDX": struct.pack(f"<{len(self.indices)}I", *self.indices)}
        for name, rows in self.rows.items():
            record, (size, _) = self.records[name], self.sections[name]
            packed = [record.struct.pack(*(row[x.name] for x in record.fields)) for row in rows]
            new[name] = b"".join(row[:size].ljust(size, b"\0") for row in packed)
        return with_sections(self.image, new)
