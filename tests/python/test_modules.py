# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""The modules by themselves: shapes, states, padding, dtypes, devices, copies, errors."""

import copy
import pickle

import pytest
import torch
from support import assert_close

import gma_torch
from gma_torch import GaussianMixtureAttention, GmaConfig, GmaForCausalLM
from gma_torch._positions import Rotary

OPTIONS = {
    "plain": {"use_rotary": False},
    "rotary": {},
    "short_conv": {"use_short_conv": True, "short_conv_width": 3},
    "grouped": {"num_key_value_heads": 2, "use_short_conv": True},
    "tied": {"covariance_type": "tied"},
    "spherical": {"covariance_type": "spherical"},
}
ALL_OPTIONS = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())


def make(is_causal=True, dtype=torch.float64, **options):
    torch.manual_seed(0)
    return GaussianMixtureAttention(
        16, 4, num_components=5, is_causal=is_causal, dtype=dtype, **options
    )


def tokens(batch=2, length=9, dtype=torch.float64, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, length, 16, generator=generator, dtype=torch.float64).to(dtype)


@ALL_OPTIONS
@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
def test_pieces_are_the_whole(options, grad):
    attention, x = make(**options), tokens()
    expected = attention(x)
    state = attention.initial_state(2)
    with torch.set_grad_enabled(grad):
        parts = [attention(part, state=state) for part in x.split((4, 1, 1, 3), 1)]
    assert state.position == 9
    assert_close(torch.cat(parts, 1), expected, 1e-12)


@ALL_OPTIONS
@pytest.mark.parametrize("is_causal", [False, True], ids=["bidirectional", "causal"])
def test_padding_has_no_effect(options, is_causal):
    """Left padding of a causal sequence, right padding else; what it holds is NaN."""
    attention, x = make(is_causal, **options), tokens(1, 6)
    expected = attention(x)
    garbage = torch.full((1, 3, 16), torch.nan, dtype=x.dtype)
    padded = torch.cat((garbage, x) if is_causal else (x, garbage), 1)
    mask = ~padded.isnan().any(-1)
    output = attention(padded, key_padding_mask=mask)
    assert_close(output[mask].unsqueeze(0), expected, 1e-12)
    if not is_causal:
        return
    state = attention.initial_state(1)
    attention(padded[:, :5], key_padding_mask=mask[:, :5], state=state)
    assert_close(attention(padded[:, 5:], state=state), expected[:, 2:], 1e-12)


@ALL_OPTIONS
def test_cross_attention_is_the_operator_between_projections(options):
    attention = make(is_causal=False, **options)
    x, context = tokens(length=4), tokens(length=7, seed=2)
    mask = torch.rand(2, 7) > 0.4
    output = attention(x, context, key_padding_mask=mask)
    assert output.shape == x.shape
    context[~mask] = torch.nan
    assert torch.equal(attention(x, context, key_padding_mask=mask), output)
    assert_close(attention(x, x), attention(x), 0.0)


def test_states_of_another_kind_are_refused():
    attention, x = make(use_short_conv=True, dtype=torch.float32), tokens(dtype=torch.float32)
    model = GmaForCausalLM(GmaConfig(hidden_size=16, num_components=5, is_causal=True))
    sums = gma_torch.State(torch.zeros(2, 4, 5, 4), torch.zeros(2, 4, 5))
    for state in ("foo", sums, model.initial_state(2)):
        with pytest.raises(TypeError, match=f"^state: expected a MixerState, got {type(state).__name__}"):
            attention(x, state=state)
    with pytest.raises(TypeError, match="^state: expected a ModelState, got MixerState"):
        model(torch.zeros(2, 3, dtype=torch.int64), state=attention.initial_state(2))
    with pytest.raises(ValueError, match="^batch_size: expected at least 0, got -1"):
        model.initial_state(-1)
    with pytest.raises(TypeError, match="^batch_size: expected int, got float"):
        attention.initial_state(2.0)
    state = attention.initial_state(2)
    attention.bfloat16()
    with pytest.raises(TypeError, match="^state: expected a tail in torch.bfloat16 as the weights"):
        attention(x.bfloat16(), state=state)
    plain = make(dtype=torch.float32)
    state = plain.initial_state(2)
    with pytest.raises(TypeError, match="^state: expected 's' in torch.float64, got torch.float32"):
        plain.double()(x.double(), state=state)
    for kind in (GmaForCausalLM, gma_torch.GmaForSequenceClassification, gma_torch.GmaBlock):
        with pytest.raises(TypeError, match="^config: expected a GmaConfig, got dict"):
            kind({"hidden_size": 16})


def test_far_positions_need_no_table(monkeypatch):
    """A table lives as long as the process; the bits are those that it would have."""
    monkeypatch.setattr(Rotary, "_tables", {})
    rotary = Rotary(6, 10000.0)
    x = torch.randn(2, 3, 4, 6)
    positions = torch.tensor([[0, 1, 2], [4000, 4001, 4002]])
    near = rotary.rotate(x, None, 4000), rotary.rotate(x, positions, 4000)
    sizes = [table.size(0) for table in Rotary._tables.values()]
    assert sizes == [4096]
    assert rotary.rotate(x, None, 10**9).isfinite().all()
    assert [table.size(0) for table in Rotary._tables.values()] == sizes
    monkeypatch.setattr(Rotary, "_LARGEST", 1)
    far = rotary.rotate(x, None, 4000), rotary.rotate(x, positions, 4000)
    assert all(torch.equal(a, b) for a, b in zip(near, far, strict=True))


def test_weights_follow_the_formulas():
    attention = make(is_causal=False, use_rotary=False, initial_variance=0.5)
    assert_close(attention.variances, torch.full_like(attention.means, 0.5), 1e-12)
    default = make()
    assert_close(default.variances, torch.full_like(default.means, 4 * 2.0), 1e-12)
    x = tokens()
    query, key, value = (
        getattr(attention, f"{name}_proj")(x).view(2, 9, 4, 4) for name in ("q", "k", "v")
    )
    output, _ = gma_torch.gaussian_mixture_attention(
        query, key, value, attention.means, attention.variances, attention.prior_logits
    )
    assert_close(attention(x), attention.o_proj(output.flatten(2)), 0.0)
    gamma_q, gamma_k = attention.responsibilities(x)
    affinity = torch.einsum("bihk,bjhk->bhij", gamma_q, gamma_k)
    weights = affinity / (affinity.sum(-1, keepdim=True) + 1e-6)
    expected = torch.einsum("bhij,bjhd->bihd", weights, value)
    assert_close(output, expected, 1e-12)


def test_responsibilities_of_grouped_heads():
    gamma_q, gamma_k = make(num_key_value_heads=2).responsibilities(tokens())
    assert gamma_q.shape == (2, 9, 4, 5) and gamma_k.shape == (2, 9, 2, 5)
    assert_close(gamma_q.sum(-1), torch.ones(2, 9, 4), 1e-12)


def test_means_come_from_data():
    attention, x = make(use_rotary=False, num_key_value_heads=2), tokens(length=40)
    attention.initialize_means(x)
    query = attention.q_proj(x).view(-1, 2, 2, 4)
    key = attention.k_proj(x).view(-1, 2, 1, 4)
    points = torch.cat((query, key), 2).transpose(0, 1).flatten(1, 2)
    distances = torch.cdist(attention.means, points)
    assert (distances.min(-1).values < 1e-6).all()
    apart = torch.cdist(attention.means, attention.means) + torch.eye(5)
    assert (apart > 1e-3).all()
    with pytest.raises(ValueError, match=r"^x: expected at least num_components \(5\)"):
        attention.initialize_means(x[:1, :1])
    with pytest.raises(ValueError, match="^x: expected finite routing vectors"):
        attention.initialize_means(x * torch.nan)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_mixture_stays_wide(dtype):
    attention = make(dtype=torch.float32)
    means = attention.means.clone()
    for narrow in (attention.to(dtype), make(dtype=dtype)):
        assert narrow.q_proj.weight.dtype == dtype
        assert all(p.dtype == torch.float32 for p in narrow.no_decay_parameters())
        assert narrow(tokens(dtype=dtype)).dtype == dtype
    assert torch.equal(attention.means, means)
    assert all(p.dtype == torch.float64 for p in attention.double().parameters())


def test_meta_device_and_reset():
    config = GmaConfig(
        hidden_size=16, num_components=4, num_layers=2, is_causal=True, use_short_conv=True
    )
    with torch.device("meta"):
        inside = GmaForCausalLM(config)
    for model in (inside, GmaForCausalLM(config, device="meta")):
        assert all(parameter.is_meta for parameter in model.parameters())
        ids = torch.zeros(2, 5, dtype=torch.int64, device="meta")
        assert model(ids).shape == (2, 5, 256)
        model.to_empty(device="cpu")
        for parameter in model.parameters():
            torch.nn.init.constant_(parameter, torch.nan)
        torch.manual_seed(3)
        model.reset_parameters()
        torch.manual_seed(3)
        model_again = GmaForCausalLM(config, device="meta").to_empty(device="cpu")
        model_again.reset_parameters()
        for (name, a), b in zip(model.named_parameters(), model_again.parameters(), strict=True):
            assert torch.isfinite(a).all() and torch.equal(a, b), name
        assert 0.018 < model.transformer.embedding.weight.std() < 0.022


def test_copies_have_the_same_bits():
    model = GmaForCausalLM(GmaConfig(hidden_size=16, num_components=4, is_causal=True)).eval()
    ids = torch.randint(256, (2, 7))
    state = model.initial_state(2)
    expected = model(ids, state=state)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(ids), expected)
    again = pickle.loads(pickle.dumps(state))
    assert torch.equal(model(ids, state=again), model(ids, state=state))


def test_a_state_reorders_and_copies():
    model = GmaForCausalLM(
        GmaConfig(hidden_size=16, num_components=4, is_causal=True, use_short_conv=True)
    ).eval()
    ids = torch.randint(256, (3, 7))
    order = torch.tensor([2, 0, 0])
    state = model.initial_state(3)
    model(ids, state=state)
    frozen = state.clone()
    moved = state.reorder(order).to("cpu").detach()
    output = model(ids[order, :2], state=moved)
    assert moved.position == 9 and state.position == 7
    for row, source in enumerate(order.tolist()):
        alone = model.initial_state(1)
        model(ids[source : source + 1], state=alone)
        assert_close(output[row], model(ids[source : source + 1, :2], state=alone)[0], 1e-5)
    for a, b in zip(state.layers, frozen.layers, strict=True):
        assert all(torch.equal(a[name], b[name]) for name in a.tensors)
    with pytest.raises(ValueError, match=r"^index: expected values in \[0, 3\), got 3"):
        state.reorder(torch.tensor([3]))


def test_a_state_is_as_it_was_after_an_error():
    model = GmaForCausalLM(GmaConfig(hidden_size=16, num_components=4, is_causal=True))
    state = model.initial_state(2)
    del state.layers[-1].tensors["z"]
    with pytest.raises(ValueError, match="^state: expected one from initial_state.. of the same"):
        model(torch.zeros(2, 3, dtype=torch.int64), state=state)
    assert state.position == 0 and not state.layers[0]["s"].any()


def test_dropout_acts_in_training_only():
    attention, x = make(attention_dropout=0.5), tokens()
    torch.manual_seed(0)
    first = attention(x)
    assert not torch.equal(first, attention(x))
    torch.manual_seed(0)
    assert torch.equal(attention(x), first)
    attention.eval()
    assert torch.equal(attention(x), attention(x))


def test_parameter_groups():
    model = GmaForCausalLM(
        GmaConfig(hidden_size=16, num_layers=1, is_causal=True, use_short_conv=True)
    )
    decayed, kept = (
        {name for name, p in model.named_parameters() if any(p is q for q in group)}
        for group in gma_torch.parameter_groups(model)
    )
    mixer = "transformer.blocks.0.mixer."
    assert {f"{mixer}{name}" for name in ("means", "raw_variances", "prior_logits")} <= kept
    assert "transformer.blocks.0.up.bias" in kept and "transformer.norm.weight" in kept
    assert {f"{mixer}q_proj.weight", f"{mixer}q_conv.weight", "transformer.embedding.weight"} <= decayed
    assert len(decayed) + len(kept) == len(list(model.parameters()))


def test_gradients_by_finite_differences():
    attention = make(use_short_conv=True, covariance_type="tied")
    names = [name for name, _ in attention.named_parameters()]

    def function(x, *parameters):
        return torch.func.functional_call(attention, dict(zip(names, parameters, strict=True)), x)

    leaves = [tokens(1, 4).requires_grad_(), *(p for _, p in attention.named_parameters())]
    assert torch.autograd.gradcheck(function, leaves, fast_mode=True)


BAD_MODULES = {
    "num_heads: expected a divisor of hidden_size .16., got 3": {"num_heads": 3},
    "num_heads: expected int, got float": {"num_heads": 4.0},
    "num_heads: expected int, got bool": {"num_heads": True},
    "num_key_value_heads: expected a divisor of num_heads .4., got 3": {"num_key_value_heads": 3},
    "hidden_size / num_heads: expected an even size with use_rotary, got 1": {"num_heads": 16},
    "rotary_base: expected above 1, got nan": {"rotary_base": float("nan")},
    "covariance_type: expected 'diag', 'tied' or 'spherical', got 'full'": {
        "covariance_type": "full"
    },
    "initial_variance: expected 0 or above variance_floor": {"initial_variance": 1e-5},
    "attention_dropout: expected in .0, 1., got 1.0": {"attention_dropout": 1.0},
    "is_causal: expected bool, got int": {"is_causal": 1},
}


@pytest.mark.parametrize("message", BAD_MODULES)
def test_constructors_name_the_argument(message):
    with pytest.raises((ValueError, TypeError), match=f"^{message}"):
        GaussianMixtureAttention(**({"hidden_size": 16, "num_heads": 4} | BAD_MODULES[message]))


def test_unknown_keywords_are_refused():
    with pytest.raises(TypeError, match="use_rotery"):
        GaussianMixtureAttention(16, 4, use_rotery=True)
    with pytest.raises(TypeError, match="causal"):
        make()(tokens(), causal=True)
    with pytest.raises(ValueError, match="^config: expected known keys only, got 'hidden'"):
        GmaConfig.from_json('{"hidden": 3}')
    with pytest.raises(ValueError, match="^config: expected each key once, got 'eps' twice"):
        GmaConfig.from_json('{"eps": 1, "eps": 2}')
    with pytest.raises(ValueError, match="^mixer: expected 'gma' .*, got 'softmax'"):
        GmaConfig.from_json('{"mixer": "softmax"}')


def test_calls_name_the_argument():
    causal, both, x = make(), make(is_causal=False), tokens()
    mask = torch.ones(2, 9, dtype=torch.bool)
    state = causal.initial_state(2)
    right = mask.clone()
    right[:, -1] = False
    refusals = [
        (lambda: both([1]), TypeError, "x: expected a Tensor, got list"),
        (lambda: both(x[0]), ValueError, r"x: expected shape \(batch, tokens, 16\)"),
        (lambda: both(x.float()), TypeError, "x: expected torch.float64 as the weights"),
        (lambda: both(x.to("meta")), ValueError, "x: expected device cpu as the weights"),
        (lambda: both(x, x[:1]), ValueError, "context: expected the batch size of x"),
        (lambda: causal(x, x), ValueError, "context: expected None in a module with is_causal"),
        (lambda: both(x, key_padding_mask=mask[:1]), ValueError, "key_padding_mask: expected shape"),
        (lambda: both(x, key_padding_mask=mask.int()), TypeError, "key_padding_mask: expected"),
        (lambda: both(x, state=state), ValueError, "state: expected None unless is_causal"),
        (lambda: both.initial_state(2), ValueError, "initial_state: expected a module"),
        (lambda: causal(x[:1], state=state), ValueError, r"state: expected the batch size of x \(1"),
        (
            lambda: causal(x, key_padding_mask=right, state=state),
            ValueError,
            "key_padding_mask: expected padding in front",
        ),
    ]
    for call, error, message in refusals:
        with pytest.raises(error, match=f"^{message}"):
            call()
    causal(x, state=state)
    with pytest.raises(ValueError, match="^key_padding_mask: expected None after the first tokens"):
        causal(x, key_padding_mask=mask, state=state)


@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_padding_changes_no_class(pooling):
    torch.manual_seed(0)
    config = GmaConfig(
        vocab_size=9, hidden_size=16, num_components=5, num_classes=3, use_short_conv=True,
        sinusoidal_positions=True, pooling=pooling,
    )  # fmt: skip
    model = gma_torch.GmaForSequenceClassification(config)
    ids, padding = torch.randint(9, (1, 6)), torch.randint(9, (1, 3))
    both = torch.cat([torch.cat([padding, ids], 1), torch.cat([ids, padding], 1)])
    mask = torch.ones(2, 9, dtype=torch.bool)
    mask[0, :3] = mask[1, 6:] = False
    assert_close(model(both, padding_mask=mask), model(ids).expand(2, 3), 1e-5)


def test_models_name_the_argument():
    model = GmaForCausalLM(
        GmaConfig(
            vocab_size=9, hidden_size=16, is_causal=True, learned_positions=True, max_length=4
        )
    )
    ids = torch.zeros(2, 3, dtype=torch.int64)
    refusals = [
        (lambda: model(ids[0]), ValueError, r"tokens: expected shape \(batch, tokens\), got \[3\]"),
        (lambda: model(ids.int()), TypeError, "tokens: expected torch.int64, got torch.int32"),
        (lambda: model(ids + 9), ValueError, r"tokens: expected values in \[0, 9\), got 9"),
        (lambda: model(ids.repeat(1, 2)), ValueError, r"tokens: expected to end before max_length"),
        (
            lambda: model(ids, state=gma_torch.ModelState([])),
            ValueError,
            "state: expected 4 layers, got 0",
        ),
        (
            lambda: GmaForCausalLM(GmaConfig()),
            ValueError,
            "config.is_causal: expected True in a causal language model, got False",
        ),
        (
            lambda: GmaConfig(pooling="max"),
            ValueError,
            "pooling: expected 'mean' or 'first', got 'max'",
        ),
        (
            lambda: GmaConfig(sinusoidal_positions=True, hidden_size=15, num_heads=1),
            ValueError,
            "hidden_size: expected an even int with sinusoidal_positions, got 15",
        ),
        (
            lambda: gma_torch.GmaForSequenceClassification(GmaConfig()),
            ValueError,
            "config.num_classes: expected at least 2",
        ),
    ]
    for call, error, message in refusals:
        with pytest.raises(error, match=f"^{message}"):
            call()
