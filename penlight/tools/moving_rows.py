"""What a person has to say in docs/MOVING.md, which moving.py writes: notes on names, and rows with their proofs."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """Old and new, in Markdown, and words of a file that make it true."""

    old: str
    new: str
    file: str
    words: str


PYTHON_NOTES = {
    "optimize_for_mobile": "the same; a file for `backend='metal'` runs on the CPU",
    "MobileOptimizerType": "the same; decides what `export_opnames` shows, and changes no result",
    "bundle_inputs": "the same; expected outputs are kept too, and how exactly they should be met",
    "_load_for_lite_interpreter": "the same, for `.ptl` and `.pen`; also `penlight.load`",
    "_get_model_bytecode_version": "the same, for `.ptl`",
}
PYTHON_MISSING = [
    Row("`module._save_for_lite_interpreter(path)`, `_save_to_buffer_for_lite_interpreter()`", "the same, of what `optimize_for_mobile` gives; also `penlight.optimize(…).save(path)`", "penlight/compat/compiled_module.py", "def _save_for_lite_interpreter"),
    Row("`torch.jit.save`, `torch.jit.load`", "the same after `install()`, which teaches them `.pen` files", "penlight/compat/patch.py", "torch.jit.load reads what"),
    Row("`torch.jit.export_opnames(module)`", "the same", "penlight/compat/mobile_module.py", "def export_opnames"),
    Row("`torch.is_vulkan_available()`, `tensor.vulkan()`", "the same after `install()`", "penlight/compat/patch.py", "is_vulkan_available"),
    Row("`torch.jit.mobile._backport_for_mobile`", "is not there, nor needed: one format, whose files stay readable", "penlight/file/SPEC.md", "loads in every later runtime"),
    Row("`python -m torch.utils.model_dump FILE`", "`penlight inspect FILE`", "penlight/tools/main.py", "inspect_command"),
]  # fmt: skip

JAVA_NOTES = {
    "org.pytorch.Module": "`.pen` files under any name; calls of several threads take turns; after `destroy()` an exception",
    "org.pytorch.PyTorchAndroid": "assets are mapped where they lie (`noCompress`), not copied out",
    "org.pytorch.Device": "`VULKAN` throws with the reason where there is none",
    "org.pytorch.DType": "also `FLOAT16`, `BOOL`, `INT16`, `BFLOAT16`, for `org.penlight.Tensors`",
    "org.pytorch.Tensor": "direct buffers are used in place, in and out",
    "org.pytorch.torchvision.TensorImageUtils": "in C++, with any row and pixel stride",
}

CPP_NOTES = {
    "c10::Error": "thrown with words; without exceptions the program ends with them",
    "c10::InferenceMode": "nothing to guard: there is no autograd",
    "torch::NoGradGuard": "nothing to guard: there is no autograd",
    "torch::autograd::AutoGradMode": "nothing to guard: there is no autograd",
    "torch::jit::GraphOptimizerEnabledGuard": "nothing to guard: there is no autograd",
    "at::AutoNonVariableTypeMode": "nothing to guard: there is no autograd",
    "at::Tensor": "no operators: these are in the model; `metal()` throws, or with `PENLIGHT_METAL_RUNS_ON_CPU` leaves it on the CPU",
    "torch::jit::Module": "also `torch::jit::mobile::Module` and `torch::jit::script::Module`",
}
CPP_MISSING = {
    "attr": "values of a model's attributes are inside its file",
    "named_parameters": "weights are packed for the kernels",
    "bytecode_version": "`penlight inspect` says a file's version",
    "RuntimeCompatibilityInfo": "`pen_model_check` says what a library lacks for a file",
    "ReadAdapterInterface": "`penlight::Model::open` takes memory and descriptors",
    "PARSE_ALL_EXTRA_FILE_MAPS": "extra files are in `getMetadata()`",
    "setGraphExecutorOptimize": "nothing is left to optimize at run time",
}

_AAR, _XC = "penlight/build/package/aar.py", "penlight/build/package/apple.py"
GRADLE = [
    Row("`implementation 'org.pytorch:pytorch_android_lite:2.1.0'`", "`implementation 'org.pytorch:pytorch_android_lite:@VERSION@'`", _AAR, '"pytorch_android_lite": Archive'),
    Row("`implementation 'org.pytorch:pytorch_android_torchvision_lite:2.1.0'`", "the same with `@VERSION@`", _AAR, '"pytorch_android_torchvision_lite": Archive'),
    Row("`org.pytorch:pytorch_android`, `org.pytorch:pytorch_android_torchvision` (the full JIT)", "the same with `@VERSION@`: they lead to those above, which run everything", _AAR, '"pytorch_android": "pytorch_android_lite"'),
    Row("", "`org.pytorch:penlight:@VERSION@`: both in one", _AAR, 'ARTIFACT = "org.pytorch", "penlight"'),
    Row("`repositories { jcenter() }`, `mavenCentral()`, snapshots", "`repositories { maven { url = uri(\"maven\") } }`", "examples/android/HelloWorld/settings.gradle.kts", 'uri("maven")'),
    Row("`flatDir { dirs 'libs' }`, `implementation(name:'pytorch_android-release', ext:'aar')`", "the same files: `scripts/build_pytorch_android.sh` writes them where it did", "scripts/build_pytorch_android.sh", "outputs/aar/$name-release.aar"),
    Row("`implementation 'com.facebook.fbjni:fbjni-java-only:0.0.3'`, `com.facebook.soloader`", "leave it out: nothing else is needed", _AAR, "NEEDS = {"),
    Row("`packagingOptions { pickFirst '**/libc++_shared.so' }`", "leave it out: there is none", "docs/BUILD.md", "any `ANDROID_STL` will do"),
    Row("`assetFilePath(context, \"model.ptl\")`, which copies the asset out", "still works; `loadModuleFromAsset` needs no copy, with `noCompress += \"pen\"`", "examples/android/HelloWorld/app/build.gradle.kts", 'noCompress += "pen"'),
]  # fmt: skip
PODS = [
    Row("`pod 'LibTorch-Lite', '~>1.13.0'`, `LibTorch`, `LibTorch-Lite-Nightly`", "`pod 'Penlight', :path => 'penlight'` and `pod 'LibTorch-Lite', :path => 'penlight'`", "bindings/apple/LibTorch-Lite.podspec", "s.name = 'LibTorch-Lite'"),
    Row("", "a Swift package: `Package.swift` lies there, with `PenlightKit` for Swift and `PenlightObjC`", _XC, "Package.swift"),
    Row("`#import <LibTorch-Lite/LibTorch-Lite.h>`, `#import <torch/script.h>`", "the same", _XC, 'copy_headers(torch_headers(), folder)'),
    Row("`TorchModule` that each app wrote (`initWithFileAtPath:`, `predictImage:`)", "keep it, or take `PenlightObjC`'s", "bindings/apple/PenlightObjC/include/TorchModule.h", "predictImage:"),
    Row("other linker flags `-all_load`, `-force_load`", "leave them out", "docs/IOS.md", "no `-all_load`"),
    Row("`Enable Bitcode: No`", "leave it out", "docs/IOS.md", "no bitcode setting"),
    Row("`Accelerate.framework`, `MetalPerformanceShaders.framework`", "leave them out: there is no Metal yet", "docs/IOS.md", "**Metal** is not there yet"),
    Row("`build_ios/install/lib`, `build_ios/install/include`", "the same", "scripts/build_ios.sh", 'install_into "$made/install"'),
    Row("`ruby setup.rb` of TestApp", "`python trace_model.py` writes the project too", "examples/ios/TestApp/benchmark/trace_model.py", "finish("),
]  # fmt: skip
_SH = "scripts/penlight_build.sh"
VARIABLES = [
    Row("`scripts/build_pytorch_android.sh [abi,…]`", "the same; `penlight build --target android --aar`", "scripts/build_pytorch_android.sh", "--aar"),
    Row("`scripts/build_android.sh`, `-DBUILD_BINARY=ON`", "the same; `penlight build --target android-arm64`, `penlight bench --adb`", "scripts/build_android.sh", "-DBUILD_BINARY="),
    Row("`scripts/build_ios.sh`", "the same; `penlight build --target ios`", "scripts/build_ios.sh", "--target ios-arm64"),
    Row("`scripts/build_mobile.sh`", "the same; `penlight build --target host`", "scripts/build_mobile.sh", "--target host"),
    Row("`SELECTED_OP_LIST=ops.yaml`", "the same; `--ops ops.yaml`. `--model m.pen` needs no list", _SH, "--ops \"$SELECTED_OP_LIST\""),
    Row("`TRACING_BASED=1`", "not needed: both kinds of list are read", _SH, "TRACING_BASED"),
    Row("`TRACING_BASED=1 python setup.py develop`, to have `model_tracer`", "not needed: `pip install penlight` has it", "pyproject.toml", "model_tracer = "),
    Row("`BUILD_LITE_INTERPRETER=1`", "not needed: there is one runtime", _SH, "BUILD_LITE_INTERPRETER"),
    Row("`USE_VULKAN=1`", "the same; `--backends cpu,vulkan`", _SH, "USE_VULKAN"),
    Row("`USE_VULKAN_FP16_INFERENCE`, `USE_VULKAN_RELAXED_PRECISION`", "asked for when a model is loaded: `f16`", "penlight/runtime/include/penlight.h", "f16"),
    Row("`USE_PYTORCH_METAL=1`, `USE_COREML_DELEGATE=1`", "said to be not there; built for the CPU", _SH, "USE_COREML_DELEGATE"),
    Row("`ANDROID_NDK`", "not needed; if it is set, that NDK compiles", _SH, "ANDROID_NDK"),
    Row("`ANDROID_ABI`", "the same; `--target android-arm64`, `-armv7`, `-x86`, `-x86_64`", "scripts/build_android.sh", "ANDROID_ABI"),
    Row("`IOS_PLATFORM`, `IOS_ARCH`", "the same; `--target ios-arm64`, `ios-simulator-arm64`, `ios-simulator-x86_64`", "scripts/build_ios.sh", "IOS_ARCH"),
    Row("`BUILD_MOBILE_BENCHMARK=1`", "the same", "scripts/build_android.sh", "BUILD_MOBILE_BENCHMARK"),
    Row("`MAX_JOBS`, `BUILD_ROOT`", "the same; `--jobs`, `-o`", "scripts/build_ios.sh", "BUILD_ROOT"),
    Row("`ANDROID_STL_SHARED`", "not needed: no C++ library is", "docs/BUILD.md", "need no C++ library"),
    Row("`ANDROID_DEBUG_SYMBOLS`", "not needed: a file of symbols lies beside every library", "docs/BUILD.md", ".sym"),
    Row("`ENABLE_BITCODE`, `USE_PYTORCH_METAL_EXPORT`, `USE_LIGHTWEIGHT_DISPATCH`, `BUILD_MOBILE_TEST`, `BUILD_PYTORCH_MOBILE`", "not read: there is nothing to switch", _SH, "build()"),
]  # fmt: skip
_MAIN = "penlight/tools/main.py"
BINARIES = [
    Row("`speed_benchmark_torch`", "the same flags and lines: `penlight bench m.pen --adb` pushes it ([SPEED_BENCHMARK.md](SPEED_BENCHMARK.md))", "docs/SPEED_BENCHMARK.md", "speed_benchmark_torch"),
    Row("TestApp for iOS, `config.json`", "the same: [examples/ios/TestApp](../examples/ios/TestApp)", "examples/ios/TestApp/TestApp/Benchmark.mm", "Iters per second: : "),
    Row("`model_tracer --model_input_path … --build_yaml_path …`", "the same; `penlight trace` ([TRACE.md](TRACE.md))", "pyproject.toml", "model_tracer = "),
    Row("`optimize_for_mobile --model m.pt --output …`", "`penlight optimize m.pt -o m.pen`", _MAIN, "optimize_command"),
    Row("`dump_operator_names --model m.pt`", "`penlight trace m.pen -o ops.yaml`", _MAIN, "trace_command"),
    Row("`compare_models_torch`", "`penlight compare m.pen --devices cpu,vulkan --layers`", _MAIN, "compare_command"),
    Row("`load_benchmark_torch`", "`penlight bench m.pen`, column \"load + first run\"", "README.md", "load + first run"),
    Row("`lite_interpreter_model_load`, `aot_model_compiler`", "`penlight inspect m.pen`; files are compiled ahead as they are", _MAIN, "inspect_command"),
]  # fmt: skip
