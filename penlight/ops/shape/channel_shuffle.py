"""channel_shuffle: channels of several groups in turn, as a transpose of [groups, channels in each]."""

from __future__ import annotations

from typing import Any

from penlight.ops.registry import composite


@composite("channel_shuffle", "native_channel_shuffle")
def _(x: Any, groups: int) -> Any:
    n, c, *size = x.shape
    return x.reshape(n, groups, c // groups, *size).transpose(1, 2).reshape(x.shape)
