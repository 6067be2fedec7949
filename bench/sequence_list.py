"""The models of the sequence benchmark, with the sizes that they have in use; batch 1, random weights, always the same."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.case import MODELS_FOLDER, Convertible, Memory

if TYPE_CHECKING:
    import torch
    from torch import nn

SEED = 20
PROMPT, ROOM, RUNS = (
    128,
    256,
    16,
)  # words before the first that is timed, that there is room for, that are timed until it starts anew


@dataclass(frozen=True)
class Sequence:
    make: Callable[[], nn.Module]
    inputs: Callable[[torch.Generator], tuple[torch.Tensor, ...]]
    text: str  # what goes in
    transformer: tuple[str, int, int] | None = None
    remembers: bool = False  # `make` gives a decoder, of which one word at a time is asked


@dataclass(frozen=True)
class SequenceCase(Convertible):
    model: str
    batch = 1
    sequence = True
    code = ("bench/networks.py", "bench/decoder.py", "bench/sequence_list.py", "tests/zoo/entry.py")

    @property
    def words(self) -> list[str]:
        return [self.model]

    @property
    def folder(self) -> Path:
        return MODELS_FOLDER / self.model

    @property
    def about(self) -> dict[str, Any]:
        return {"model": self.model, "batch": 1, "text": self.entry.text}

    @property
    def entry(self) -> Sequence:
        return SEQUENCES[self.model]

    def module(self) -> nn.Module:
        from bench.decoder import Step

        if memory := self.memory():
            return Step(memory.growing.decoder, memory.past, memory.room).eval()  # type: ignore[arg-type]
        return self._network()

    def inputs(self) -> tuple[torch.Tensor, ...]:
        import torch

        return self.entry.inputs(torch.Generator().manual_seed(SEED))

    def transformer(self) -> tuple[str, int, int] | None:
        return self.entry.transformer

    def memory(self) -> Memory | None:
        if not self.entry.remembers:
            return None
        import torch

        from bench.decoder import Decoder, Growing, Prefill, Shared

        decoder = self._network()
        assert isinstance(decoder, Decoder)
        prompt = _words(decoder.words.num_embeddings, PROMPT)(torch.Generator().manual_seed(SEED + 1))
        with torch.no_grad():
            _, *past = Prefill(decoder).eval()(*prompt)
        forms = Growing(decoder).eval(), Shared(decoder).eval()
        return Memory(tuple(t.contiguous() for t in past), ROOM, RUNS, *forms)

    def moved_bytes(self) -> int:
        """All weights, the table of words once, and the keys and values of the words so far."""
        memory = self.memory()
        if memory is None:
            return 0
        decoder = memory.growing.decoder
        weights = sum(p.nbytes for p in decoder.parameters()) - decoder.places.weight.nbytes  # type: ignore[operator,union-attr]
        return int(weights + sum(t.nbytes for t in memory.past))

    def _network(self) -> nn.Module:
        import torch

        from tests.zoo.entry import randomise

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            network = self.entry.make()
            randomise(network)
        return network.eval().requires_grad_(False)


def _ours(file: str, *names: str) -> Callable[[], nn.Module]:
    """`_ours("decoder", "Prefill", "Decoder")`: Prefill(Decoder())."""

    def make() -> nn.Module:
        classes = [getattr(importlib.import_module(f"bench.{file}"), name) for name in names]
        made: nn.Module = classes.pop()()
        for outer in reversed(classes):
            made = outer(made)
        return made

    return make


def _torchvision(name: str) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        import penlight  # noqa: F401 (torchvision imports after it)

        # isort: split
        import torchvision

        return torchvision.models.get_model(name, weights=None)  # type: ignore[no-any-return]

    return make


def _words(words: int, length: int, kept: bool = False) -> Callable[[torch.Generator], tuple[torch.Tensor, ...]]:
    """Numbers of words; with `kept` a mask that leaves none out."""

    def make(random: torch.Generator) -> tuple[torch.Tensor, ...]:
        import torch

        ids = torch.randint(0, words, (1, length), generator=random)
        return (ids, torch.ones_like(ids)) if kept else (ids,)

    return make


def _noise(*shape: int) -> Callable[[torch.Generator], tuple[torch.Tensor, ...]]:
    def make(random: torch.Generator) -> tuple[torch.Tensor, ...]:
        import torch

        return (torch.randn(shape, generator=random),)

    return make


SEQUENCES: dict[str, Sequence] = {
    "bert_base": Sequence(_ours("networks", "Bert"), _words(30522, 128, kept=True), "128 words", ("bert", 12, 768)),
    "gpt2_prefill": Sequence(
        _ours("decoder", "Prefill", "Decoder"), _words(50257, PROMPT), f"{PROMPT} words", ("gpt2", 12, 768)
    ),
    "gpt2_token": Sequence(_ours("decoder", "Decoder"), _words(50257, 1), f"one word after {PROMPT}", remembers=True),
    "whisper_tiny_encoder": Sequence(
        _ours("networks", "WhisperEncoder"), _noise(1, 80, 3000), "80 × 3000 mel", ("bart", 6, 384)
    ),
    "lstm_3x512": Sequence(_ours("networks", "Lstm"), _noise(1, 100, 80), "100 steps of 80"),
    "wav2vec2_front": Sequence(_ours("networks", "Wav2Vec2Front"), _noise(1, 16000), "16000 samples"),
    "swin_t": Sequence(_torchvision("swin_t"), _noise(1, 3, 224, 224), "224 × 224", ("swin", 0, 0)),
    "convnext_tiny": Sequence(_torchvision("convnext_tiny"), _noise(1, 3, 224, 224), "224 × 224", ("vit", 0, 0)),
}
