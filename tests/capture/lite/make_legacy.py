"""Writes files of PyTorch Mobile with what they compute: `python make_legacy.py FOLDER [NAME …]`, under any PyTorch that can save
them.

For each model NAME.json with the calls and the results of PyTorch's own lite interpreter, NAME.v<version>.ptl for bytecode
versions (9 is the flatbuffer container), and NAME.pt, the same as torch.jit.save writes it. `make_legacy.py fixtures --committed`
under torch 1.13 wrote those beside; legacy.py reads them.
"""

import base64
import json
import linecache
import os
import sys
import warnings
import zipfile

import torch
from torch.jit.mobile import _backport_for_mobile, _load_for_lite_interpreter
from torch.utils.mobile_optimizer import optimize_for_mobile

warnings.filterwarnings("ignore")
VERSIONS = (4, 5, 6, 7, 8, 9)
COMMITTED = {  # a few kB each
    "small": VERSIONS,
    "net_traced": (8,),
    "net_xnnpack": (8, 9),
    "control": (4, 6, 8, 9),
    "counter": (8, 9),
    "saved": (8, 9),
    "named": (4, 8),
    "dynamic_qnnpack": (8, 9),
    "static_qnnpack": (4, 8, 9),
    "tables_8bit": (8,),
    "tables_4bit": (8, 9),
    "divide": (8, 9),
    "divide_old": (4, 8),
    "gelu_old": (8,),
    "outs": (6, 8),
}


def load_models():
    """The models' module, compiled under a bare name: file names get into the debug information."""
    name = "legacy_models.py"
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), name)) as f:
        text = f.read()
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    module = type(sys)("legacy_models")
    module.__file__ = name
    sys.modules["legacy_models"] = module
    exec(compile(text, name, "exec"), module.__dict__)
    return module


def encode(value):
    """Values as JSON: {"tensor": …}, {"tuple": …}, {"dict": …}; the rest as such."""
    if isinstance(value, torch.Tensor):
        value = value.detach().contiguous()
        data = base64.b64encode(value.numpy().tobytes()).decode()
        return {"tensor": data, "dtype": str(value.dtype).split(".")[1], "shape": list(value.shape)}
    if isinstance(value, tuple):
        return {"tuple": [encode(v) for v in value]}
    if isinstance(value, list):
        return [encode(v) for v in value]
    if isinstance(value, dict):
        return {"dict": [[encode(k), encode(v)] for k, v in value.items()]}
    return value


def run(module, calls):
    """The calls' results, in order; the first line of the message where there is an exception."""
    results = []
    for method, args in calls:
        copies = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
        try:
            results.append({"expected": encode(module.run_method(method, *copies))})
        except Exception as e:
            results.append({"error": str(e).splitlines()[0]})
    return results


class Eager:
    """Calls the module that is saved, in place of the file."""

    def __init__(self, module):
        self.module = module

    def run_method(self, method, *args):
        return getattr(self.module, method)(*args)


def set_operator_version(path, version):
    """The same file, as if a PyTorch with older operators had saved it."""
    with zipfile.ZipFile(path) as source:
        entries = [(i.filename, source.read(i)) for i in source.infolist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as target:
        for name, content in entries:
            target.writestr(name, b"%d\n" % version if name.endswith("/version") else content)


committed = False


def save(folder, name, script, calls, versions=VERSIONS, debug=False, operator_version=None, mutates=False):
    if committed:
        versions = COMMITTED[name]
    paths = {}
    newest = os.path.join(folder, name + ".v8.ptl")
    for version in sorted(versions, reverse=True):
        path = paths[version] = os.path.join(folder, f"{name}.v{version}.ptl")
        if version == 9:
            script._save_for_lite_interpreter(path, _use_flatbuffer=True)
        elif version == 8:
            script._save_for_lite_interpreter(
                path, _save_mobile_debug_info=debug, _extra_files={"note.txt": "made of " + name}
            )
        else:
            assert _backport_for_mobile(newest, path, version)
    source = os.path.join(folder, name + ".pt")
    script.save(source)
    if operator_version is not None:
        for path in (*paths.values(), source):
            set_operator_version(path, operator_version)
    results = {}
    for version, path in paths.items():
        if mutates and version == 9:
            continue  # PyTorch maps weights of this container read-only, and writing to one ends the process
        try:
            # a named tuple from the lite interpreter does not reach Python in PyTorch 1.13
            module = Eager(script) if name == "named" else _load_for_lite_interpreter(path)
            results[version] = run(module, calls)
        except RuntimeError as e:
            raise RuntimeError(f"{path}: {str(e)[:500]}") from None
    first = results[max(results)]
    for version, result in results.items():
        assert result == first, (name, version, result, first)
    record = {
        "torch": torch.__version__,
        "files": {str(v): os.path.basename(p) for v, p in sorted(paths.items())},
        "source": name + ".pt",
        "calls": [
            dict(method=method, args=[encode(a) for a in args], **result)
            for (method, args), result in zip(calls, first, strict=True)
        ],
    }
    with open(os.path.join(folder, name + ".json"), "w") as f:
        lines = [json.dumps(call) for call in record.pop("calls")]
        f.write(json.dumps(record)[:-1] + ',\n "calls": [\n  ' + ",\n  ".join(lines) + "\n ]}\n")


def compact(script):
    """As users ship it, where this PyTorch has the optimizer."""
    try:
        return optimize_for_mobile(script)
    except RuntimeError:
        return script


def make(folder, only=()):
    models = load_models()
    engines = torch.backends.quantized.supported_engines

    def wanted(name):
        return name in COMMITTED if committed else not only or name in only

    torch.manual_seed(0)
    if wanted("small"):
        model, calls = models.small()
        save(folder, "small", torch.jit.script(model), calls, debug=True)
    if wanted("net"):
        model, calls = models.net()
        save(folder, "net", torch.jit.script(model), calls, debug=True)
    if wanted("net_traced"):
        model, calls = models.net()
        save(folder, "net_traced", models.trace(model, calls[0][1][0]), calls, (8, 9), debug=not committed)
    if wanted("net_xnnpack"):
        model, calls = models.net()
        try:
            script = optimize_for_mobile(torch.jit.script(model))
        except RuntimeError as e:
            print("no XNNPACK in this PyTorch:", str(e)[:80])
        else:
            save(folder, "net_xnnpack", script, calls, (4, 8, 9))
    if wanted("control"):
        model, calls = models.control()
        save(folder, "control", torch.jit.script(model), calls, debug=True)
    for name, versions in (("counter", (8, 9)), ("saved", (8, 9)), ("named", (4, 8))):
        if wanted(name):
            model, calls = getattr(models, name)()
            save(folder, name, torch.jit.script(model), calls, versions, mutates=name == "counter")
    for engine in ("qnnpack", "fbgemm"):
        if engine not in engines:
            continue
        torch.backends.quantized.engine = engine
        if wanted("dynamic_" + engine):
            model, calls = models.dynamic()
            save(folder, "dynamic_" + engine, compact(torch.jit.script(model)), calls, (4, 8, 9))
        if wanted("static_" + engine):
            model, calls = models.static(engine)
            save(folder, "static_" + engine, compact(torch.jit.script(model)), calls, (4, 8, 9))
    if wanted("dynamic_fp16") and "fbgemm" in engines:
        torch.backends.quantized.engine = "fbgemm"
        model, calls = models.dynamic(torch.float16)
        save(folder, "dynamic_fp16", torch.jit.script(model), calls, (8, 9))
    for bits in (8, 4):
        if wanted(f"tables_{bits}bit"):
            model, calls = models.tables(bits)
            try:
                save(folder, f"tables_{bits}bit", torch.jit.script(model), calls, (8, 9))
            except RuntimeError as e:
                print("this PyTorch cannot load what it saves:", str(e)[:80])
    for name, versions in (("divide", (8, 9)), ("gelu", (8, 9))):
        if wanted(name):
            model, calls = getattr(models, name)()
            save(folder, name, torch.jit.script(model), calls, versions)
    for name, versions in (("outs", (6, 8, 9)), ("attention", (8, 9))):
        if wanted(name):
            model, calls = getattr(models, name)()
            save(folder, name, torch.jit.script(model), calls, versions)
    for name, versions in (("divide", (4, 8)), ("gelu", (8,))):
        if wanted(name + "_old"):
            model, calls = getattr(models, name)()
            save(folder, name + "_old", torch.jit.script(model), calls, versions, operator_version=3)


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    committed = sys.argv[2:] == ["--committed"]
    make(sys.argv[1], sys.argv[2:])
