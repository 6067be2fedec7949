"""transformers: language, vision and speech models with random weights, from configurations of two layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tests.zoo.entry import Entry, Inputs, Size, images

WORDS = 99
SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}


def _make(model: str, config: str, **options: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        import transformers

        built: nn.Module = getattr(transformers, model)(getattr(transformers, config)(**options))
        return built

    return make


def _words(batch: int, size: Size, random: torch.Generator) -> Inputs:
    """Words and a mask that leaves out the last ones of each text but the first."""
    (length,) = size
    mask = torch.arange(length) < torch.tensor([length - 2 * i for i in range(batch)])[:, None]
    return torch.randint(0, WORDS, (batch, length), generator=random), mask.long()


def _language(name: str, model: str, config: str, *, quick: bool = False, **options: Any) -> Entry:
    make = _make(model, config, vocab_size=WORDS, **options)
    return Entry(name, "transformers", make, _words, ((12,), (17,)), quick, ("input_ids", "attention_mask"))


def _sound(batch: int, size: Size, random: torch.Generator) -> Inputs:
    return (torch.randn(batch, *size, generator=random),)


ENTRIES = [
    _language("BERT", "BertModel", "BertConfig", quick=True, **SMALL),
    _language("DistilBERT", "DistilBertModel", "DistilBertConfig", dim=64, n_layers=2, n_heads=4, hidden_dim=128),
    _language("RoBERTa", "RobertaModel", "RobertaConfig", **SMALL),
    _language("GPT-2", "GPT2LMHeadModel", "GPT2Config", n_embd=64, n_layer=2, n_head=4, use_cache=False, bos_token_id=1, eos_token_id=2),
    _language("T5 encoder", "T5EncoderModel", "T5Config", d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4),
    _language("Llama", "LlamaForCausalLM", "LlamaConfig", num_key_value_heads=2, use_cache=False, **SMALL),
    Entry("ViT", "transformers", _make("ViTModel", "ViTConfig", image_size=64, patch_size=16, **SMALL), images, ((64, 64),)),
    Entry("DeiT", "transformers", _make("DeiTModel", "DeiTConfig", image_size=64, patch_size=16, **SMALL), images, ((64, 64),)),
    Entry("MobileViT", "transformers", _make("MobileViTModel", "MobileViTConfig"), images, ((64, 64),)),
    Entry("SegFormer", "transformers", _make("SegformerForSemanticSegmentation", "SegformerConfig"), images, ((64, 64), (96, 128))),
    Entry(
        "Whisper encoder",
        "transformers",
        lambda: _make("WhisperModel", "WhisperConfig", vocab_size=WORDS, d_model=64, encoder_layers=2, encoder_attention_heads=4,
                      encoder_ffn_dim=128, decoder_layers=1, decoder_attention_heads=4, decoder_ffn_dim=128, max_source_positions=100,
                      pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)().get_encoder(),
        _sound,
        ((80, 200),),
    ),
    Entry(
        "Wav2Vec2",
        "transformers",
        _make("Wav2Vec2Model", "Wav2Vec2Config", vocab_size=32, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, **SMALL),
        _sound,
        ((4000,), (5200,)),
    ),
]  # fmt: skip
