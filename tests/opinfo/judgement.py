"""How an OpInfo operator's results are compared with torch's. Most: same containers, dtypes and shapes, integers equal,
floats within 1e-5 of max |y| (tests/compare.py). The others stand here, each with its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.utils._pytree as pytree

from tests.compare import assert_same

Judge = Callable[[Any, Any], None]

# Whose numbers are random: shapes and dtypes are compared here, the numbers' statistics in tests/ops/test_random.py.
RANDOM = {
    "bernoulli",
    "cauchy",
    "exponential",
    "geometric",
    "log_normal",
    "multinomial",
    "nn.functional.alpha_dropout",
    "nn.functional.dropout",
    "nn.functional.dropout2d",
    "nn.functional.dropout3d",
    "nn.functional.feature_alpha_dropout.with_train",
    "nn.functional.fractional_max_pool2d",
    "nn.functional.fractional_max_pool3d",
    "nn.functional.rrelu",
    "normal",
    "normal.in_place",
    "normal.number_mean",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "uniform",
}

# Whose memory is not initialised: torch's numbers are anything.
UNINITIALISED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}

# Whose indices torch leaves open among equal numbers, which whole numbers have in these samples: values are compared here,
# where the indices lead in tests/ops/test_order.py.
OPEN_INDICES = {"kthvalue", "median", "mode", "nanmedian", "sort", "topk"}

# Looser than 1e-5 of max |y|: the condition of the problem multiplies the rounding of both sides.
TOLERANCES: dict[str, float] = {
    "nn.functional.multi_head_attention_forward": 3e-5,  # four products and a softmax in a row; 1.3e-5 was seen
    "svd_lowrank": 2e-2,  # of more than its rank: what is cut off depends on the random subspace
}


def _svd(u: Any, s: Any, v: Any, turned: bool) -> list[Any]:
    v = v.mT if turned else v
    if u.numel() == 0 or v.numel() == 0 or not u.any():  # no vectors are asked for
        return [s, u, v]
    k = s.shape[-1]
    return [s, (u[..., :k] * s[..., None, :]) @ v[..., :k, :], u.mT @ u, v @ v.mT]


def _eig(w: Any, v: Any) -> list[Any]:
    return [w, v * w[..., None, :] @ torch.linalg.inv(v), v.abs().square().sum(-2)]


# Factors that are determined only up to signs, unit numbers, or rotations of vectors that belong to equal values: what is
# compared is the values, the product of the factors, and that the vectors are orthogonal or of length one.
FACTORS: dict[str, Callable[..., list[Any]]] = {
    "svd": lambda u, s, v: _svd(u, s, v, True),
    "svd_lowrank": lambda u, s, v: _svd(u, s, v, True),
    "pca_lowrank": lambda u, s, v: _svd(u, s, v, True),
    "linalg.svd": lambda u, s, v: _svd(u, s, v, False),
    "linalg.eigh": lambda w, v: [w, v * w[..., None, :] @ v.mT, v.mT @ v],
    "linalg.eig": _eig,
}


def of(name: str, kwargs: Mapping[str, Any]) -> Judge:
    """For one call of the operator: attention with dropout is random, without it is not."""
    drops = kwargs.get("dropout_p") or (name == "nn.functional.multi_head_attention_forward" and kwargs["training"])
    if name in RANDOM or name in UNINITIALISED or drops:
        return same_types
    tolerance = TOLERANCES.get(name, 1e-5)

    def judge(got: Any, expected: Any) -> None:
        if name in FACTORS:
            same_types(got, expected)
            got, expected = (FACTORS[name](*map(torch.as_tensor, x)) for x in (got, expected))
        if name in OPEN_INDICES and isinstance(expected, tuple) and not expected[0].is_floating_point():
            same_types(got, expected)
            got, expected = got[0], expected[0]
        assert_same(_plain(got), _plain(expected), tolerance, name)

    return judge


def same_types(got: Any, expected: Any) -> None:
    ours, theirs = pytree.tree_leaves(got), pytree.tree_leaves(expected)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        if isinstance(b, torch.Tensor):
            a = torch.as_tensor(a)
            assert (a.dtype, a.shape) == (b.dtype, b.shape), f"{a.dtype} {a.shape}, torch gives {b.dtype} {b.shape}"


def _plain(result: Any) -> Any:
    """Leaves in a list: containers are tested elsewhere, and torch's named tuples come back as plain ones. Complex numbers
    as pairs, which the comparison of floats knows."""
    leaves = [torch.as_tensor(x) if isinstance(x, torch.Tensor) else x for x in pytree.tree_leaves(result)]
    return [
        torch.view_as_real(x.resolve_conj()) if isinstance(x, torch.Tensor) and x.is_complex() else x for x in leaves
    ]
