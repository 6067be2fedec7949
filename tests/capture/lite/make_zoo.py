"""Files of whole torchvision models as the original PyTorch Mobile wrote them, with its results. Two steps, in two Pythons:

`make_zoo.py models FOLDER NAME…` builds models with the installed torch and torchvision, and saves TorchScript;
`make_zoo.py files FOLDER` under torch 1.13 loads that, runs optimize_for_mobile, and writes .ptl files as make_legacy.py does.
Names are torchvision's; "quantized_NAME" is quantized for QNNPACK.
"""

import glob
import os
import sys
import warnings

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
SIZES = {"vit_b_16": 224, "inception_v3": 96, "quantized_inception_v3": 96}  # pixels; 64 for others

# Deep families with fewer of the same blocks: each stage, and what is between stages, stays.
SHALLOW = {
    "densenet121": lambda models: models.DenseNet(32, (2, 3, 3, 2), 64),
    "swin_t": lambda models: models.SwinTransformer([4, 4], 96, [2, 2, 2, 2], [3, 6, 12, 24], [7, 7]),
}


def example(name):
    size = SIZES.get(name, 64)
    return torch.randn(1, 3, size, size, generator=torch.Generator().manual_seed(3))


def make_models(folder, names):
    sys.path.insert(0, os.path.abspath(os.path.join(HERE, "..", "..", "..")))
    from tests.zoo.entry import randomise  # imports penlight, after which torchvision imports

    # isort: split
    import torchvision

    torch.backends.quantized.engine = "qnnpack"
    for name in names:
        torch.manual_seed(0)
        x = example(name)
        if name.startswith("quantized_"):
            script = quantized(torchvision.models.quantization, name.split("_", 1)[1], x, randomise)
        else:
            make = getattr(torchvision.models, name, None) or getattr(torchvision.models.segmentation, name)
            options = {"weights_backbone": None} if hasattr(torchvision.models.segmentation, name) else {}
            shallow = SHALLOW.get(name)
            model = shallow(torchvision.models) if shallow else make(weights=None, **options)
            randomise(model)
            with torch.no_grad():
                script = torch.jit.trace(model.eval(), x, strict=False, check_trace=False)
        script.save(os.path.join(folder, name + ".pt"))


def quantized(family, name, x, randomise):
    quantization = torch.ao.quantization
    model = getattr(family, name)(weights=None, quantize=False)
    randomise(model)
    model.eval()
    model.fuse_model()
    model.qconfig = quantization.get_default_qconfig("qnnpack")
    quantization.prepare(model, inplace=True)
    model(x)
    model(x.flip(3) * 0.5)
    quantization.convert(model, inplace=True)
    # scripted, it would return a named tuple, which flatbuffer files cannot
    return torch.jit.trace(model, x) if name in ("googlenet", "inception_v3") else torch.jit.script(model)


def make_files(folder):
    sys.path.insert(0, HERE)
    from make_legacy import compact, save

    torch.backends.quantized.engine = "qnnpack"
    for path in sorted(glob.glob(os.path.join(folder, "*.pt"))):
        name = os.path.basename(path)[: -len(".pt")]
        calls = [("forward", [example(name)])]
        save(folder, name, compact(torch.jit.load(path).eval()), calls, (4, 8, 9))
        os.remove(path)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    if sys.argv[1] == "models":
        make_models(sys.argv[2], sys.argv[3:])
    else:
        make_files(sys.argv[2])
