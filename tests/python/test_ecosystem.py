# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Modules inside what people put modules into: compilation, autocast, checkpointing, torch.func,
scikit-learn."""

import numpy
import pytest
import torch
from support import NAMES, assert_close, composite_attention, make_inputs, make_state
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import checkpoint

import gma_torch
from gma_torch import GaussianMixtureAttention, GmaConfig, GmaForCausalLM

attention = gma_torch.gaussian_mixture_attention


def make_model(**options):
    torch.manual_seed(0)
    sizes = {"vocab_size": 30, "hidden_size": 16, "num_layers": 2, "num_components": 4}
    return GmaForCausalLM(GmaConfig(**(sizes | {"is_causal": True, "use_short_conv": True} | options)))


def loss_and_gradients(model, run, tokens):
    logits = run(tokens)
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
    return [loss, *torch.autograd.grad(loss, list(model.parameters()))]


def test_a_model_compiles_once_for_all_lengths():
    torch.compiler.reset()
    model, compilations = make_model().double(), []

    def backend(graph, example_inputs):
        compilations.append(graph)
        return graph.forward

    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=backend)
    for length in (5, 300, 17):
        tokens = torch.randint(30, (2, length))
        expected = loss_and_gradients(model, model, tokens)
        for a, b in zip(loss_and_gradients(model, compiled, tokens), expected, strict=True):
            assert_close(a, b, 1e-11)
    assert len(compilations) == 1


def test_a_padded_mixer_compiles():
    torch.compiler.reset()
    module = GaussianMixtureAttention(16, 2, num_components=4, is_causal=True, dtype=torch.float64)
    x, mask = torch.randn(2, 9, 16, dtype=torch.float64), torch.ones(2, 9, dtype=torch.bool)
    mask[1, :4] = False
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend="aot_eager")
    expected = module(x, key_padding_mask=mask)
    assert_close(compiled(x, key_padding_mask=mask), expected, 1e-12)


def test_a_state_goes_through_compiled_code():
    torch.compiler.reset()
    model = make_model(num_layers=1).double().eval()
    tokens = torch.randint(30, (2, 9))
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    states = [model.initial_state(2) for _ in range(2)]
    with torch.inference_mode():
        for part in tokens.split((5, 4), 1):
            expected = model(part, state=states[0])
            assert_close(compiled(part, state=states[1]), expected, 1e-11)
    assert states[0].position == states[1].position == 9


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype):
    model = make_model(use_short_conv=False)
    tokens = torch.randint(30, (2, 12))
    expected = model(tokens)
    with torch.autocast("cpu", dtype):
        logits = model(tokens)
        loss = logits.float().square().mean()
    assert logits.dtype == dtype
    assert_close(logits, expected, 0.05)
    loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad.dtype == torch.float32 and parameter.grad.isfinite().all(), name


def test_autocast_with_a_state():
    model = make_model().eval()
    tokens, state = torch.randint(30, (2, 12)), model.initial_state(2)
    with torch.autocast("cpu", torch.bfloat16), torch.inference_mode():
        expected = model(tokens)
        parts = [model(part, state=state) for part in tokens.split((7, 1, 4), 1)]
    assert_close(torch.cat(parts, 1), expected, 0.05)
    assert state.layers[0]["s"].dtype == torch.float32


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_activation_checkpointing_gives_the_same_bits(use_reentrant):
    model = make_model(attention_dropout=0.2)
    x = torch.randn(2, 12, 16, requires_grad=True)
    results = []
    for recompute in (False, True):
        torch.manual_seed(1)
        y = x
        for block in model.transformer.blocks:
            y = checkpoint(block, y, use_reentrant=use_reentrant) if recompute else block(y)
        parameters = [*model.transformer.blocks.parameters()]
        model.zero_grad()
        x.grad = None
        y.square().sum().backward()
        results.append([y, x.grad, *(parameter.grad for parameter in parameters)])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


# torch says once a process that it has no batching rule for the operators, and loops.
@pytest.mark.filterwarnings("ignore:There is a performance drop")
class TestTransforms:
    def test_grad_is_backward(self):
        inputs = make_inputs(queries=9)
        state = make_state(inputs)
        options = {"is_causal": True, "return_state": True}

        def function(*tensors):
            output, final = attention(*tensors[:6], initial_state=tensors[6:], **options)
            return output.square().sum() + final.s.square().sum() + final.z.sum()

        leaves = [tensor.requires_grad_() for tensor in (*inputs.values(), *state)]
        expected = torch.autograd.grad(function(*leaves), leaves)
        gradients = torch.func.grad(function, argnums=tuple(range(8)))(*leaves)
        assert all(torch.equal(a, b) for a, b in zip(gradients, expected, strict=True))

    def test_vmap_is_a_loop(self):
        rows = [make_inputs(queries=5, seed=seed) for seed in range(3)]
        stacked = [torch.stack([row[name] for row in rows]) for name in NAMES]
        mask = torch.rand(3, 2, 5) > 0.3

        def function(mask, *tensors):
            return attention(*tensors, key_padding_mask=mask)[0]

        expected = [function(m, *row.values()) for m, row in zip(mask, rows, strict=True)]
        assert torch.equal(torch.func.vmap(function)(mask, *stacked), torch.stack(expected))

    def test_steps_and_responsibilities_batch(self):
        inputs = make_inputs(queries=3)
        mixture = [inputs[name] for name in NAMES[3:]]
        state = make_state(inputs)

        def step(query, key, value):
            return gma_torch.gaussian_mixture_attention_step(query, key, value, *mixture, state)[0]

        tokens = [inputs[name].transpose(0, 1) for name in NAMES[:3]]
        expected = [step(*token) for token in zip(*tokens, strict=True)]
        assert_close(torch.func.vmap(step)(*tokens), torch.stack(expected), 1e-13)

        def gamma(x):
            return gma_torch.responsibilities(x, *mixture)

        x = torch.stack([inputs["query"], inputs["key"]])
        assert_close(torch.func.vmap(gamma)(x), torch.stack([gamma(each) for each in x]), 1e-13)

    def test_gradients_of_each_sample(self):
        module = GaussianMixtureAttention(8, 2, num_components=3, is_causal=True, dtype=torch.float64)
        parameters = dict(module.named_parameters())
        x = torch.randn(4, 6, 8, dtype=torch.float64)

        def loss(parameters, row):
            return torch.func.functional_call(module, parameters, row.unsqueeze(0)).square().sum()

        each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)
        for name, parameter in parameters.items():
            for row in range(4):
                (expected,) = torch.autograd.grad(loss(parameters, x[row]), parameter)
                assert_close(each[name][row], expected, 1e-12, name)

    def test_gradients_of_each_sample_of_a_model(self):
        model = make_model(num_layers=1).double()
        parameters = dict(model.named_parameters())
        tokens = torch.randint(30, (3, 6))

        def loss(parameters, row):
            logits = torch.func.functional_call(model, parameters, row[:-1].unsqueeze(0))
            return torch.nn.functional.cross_entropy(logits[0], row[1:])

        each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, tokens)
        for row in range(3):
            expected = torch.autograd.grad(loss(parameters, tokens[row]), parameters.values())
            for name, gradient in zip(parameters, expected, strict=True):
                assert_close(each[name][row], gradient, 1e-11, name)

    @pytest.mark.parametrize("name", (*NAMES, "cu_seqlens_q"))
    def test_ranks_are_checked(self, name):
        boundaries = {f"cu_seqlens_{side}": torch.tensor([0, 4]) for side in "qk"}
        inputs = make_inputs(batch=1, queries=4) | boundaries
        inputs[name] = inputs[name][0]

        def function(query):
            return attention(**(inputs | {"query": query}))[0].sum()

        with pytest.raises(ValueError, match=f"^{name}: expected"):
            torch.func.grad(function)(inputs["query"])

    def test_vmap_draws_one_seed_or_refuses(self):
        inputs = make_inputs(batch=1, queries=3)
        rest = [inputs[name] for name in NAMES[1:]]

        def function(query):
            return attention(query, *rest, dropout_p=0.5)[0]

        rows = torch.stack([inputs["query"]] * 2)
        first, second = torch.func.vmap(function, randomness="same")(rows)
        assert torch.equal(first, second)
        with pytest.raises(NotImplementedError, match="^dropout_seed: expected an int in vmap"):
            torch.func.vmap(function, randomness="different")(rows)

    def test_jacrev_and_vjp_are_rows_of_backward(self):
        inputs = make_inputs(batch=1, queries=3)
        rest = [inputs[name] for name in NAMES[1:]]
        query = inputs["query"].requires_grad_()

        def function(query):
            return attention(query, *rest, is_causal=False)[0].flatten()[:4]

        output, pull = torch.func.vjp(function, query)
        assert torch.equal(output, function(query))
        jacobian = torch.func.jacrev(function)(query)
        for row, weights in enumerate(torch.eye(4, dtype=torch.float64)):
            (expected,) = torch.autograd.grad(function(query), query, weights)
            assert torch.equal(pull(weights)[0], expected)
            assert_close(jacobian[row], expected, 1e-13)

    def test_what_cannot_be_differentiated_is_refused(self):
        inputs = make_inputs(queries=4)
        rest = [inputs[name] for name in NAMES[1:]]

        def function(query):
            return attention(query, *rest)[0].square().sum()

        query = inputs["query"]
        with pytest.raises(NotImplementedError, match="expected to be differentiated in reverse mode"):
            torch.func.jvp(function, (query,), (query,))
        with pytest.raises(NotImplementedError, match="a request for its second derivative"):
            torch.func.grad(lambda q: torch.func.grad(function)(q).square().sum())(query)


def test_shapes_are_known_without_values():
    """Fake tensors, and the meta device with a mask beside a state."""
    with FakeTensorMode():
        model, mask = make_model(), torch.ones(2, 3, dtype=torch.bool)
        tokens = torch.zeros(2, 3, dtype=torch.int64)
        assert model(tokens, state=model.initial_state(2), padding_mask=mask).shape == (2, 3, 30)
    model = GmaForCausalLM(make_model().config, device="meta")
    tokens, mask = (torch.zeros(2, 3, dtype=dtype, device="meta") for dtype in (torch.int64, torch.bool))
    assert model(tokens, state=model.initial_state(2), padding_mask=mask).shape == (2, 3, 30)


@pytest.mark.parametrize("covariance_type", ["diag", "tied", "spherical"])
def test_responsibilities_are_predict_proba(covariance_type):
    mixture = pytest.importorskip("sklearn.mixture", reason="scikit-learn is not installed")
    inputs = make_inputs(batch=1, queries=50, heads=1, components=6, covariance_type=covariance_type)
    means, variances, logits = (inputs[name] for name in NAMES[3:])
    gamma = gma_torch.responsibilities(inputs["query"], means, variances, logits)[0, :, 0]

    scikit = mixture.GaussianMixture(
        6, covariance_type="spherical" if covariance_type == "spherical" else "diag"
    )
    scikit.means_ = means[0].numpy()
    scikit.weights_ = logits[0].softmax(-1).numpy()
    # Its "tied" is a full matrix; shared diagonal variances are those of "diag", repeated.
    sigma2 = variances[0].expand_as(means[0]).numpy()
    scikit.covariances_ = sigma2[:, 0] if covariance_type == "spherical" else sigma2
    scikit.precisions_cholesky_ = 1 / numpy.sqrt(scikit.covariances_)
    expected = scikit.predict_proba(inputs["query"][0, :, 0].numpy())
    assert_close(gamma, torch.from_numpy(expected), 1e-12)


def test_explain_tells_the_path():
    inputs = make_inputs(dtype=torch.float32, covariance_type="tied", requires_grad=True)
    found = gma_torch.explain(**inputs, is_causal=True)
    assert found.path == "kernel" and "CPU, which has kernels for Float" in found.reason
    assert any("tied variances" in note for note in found.notes)
    assert any("states before segments" in note for note in found.notes)
    with torch.autocast("cpu", torch.bfloat16):
        found = gma_torch.explain(**inputs)
    assert "kernels for BFloat16" in found.reason and "autocast" in str(found)
    meta = {name: tensor.to("meta") for name, tensor in inputs.items()}
    assert gma_torch.explain(**meta).path == "meta"
    with torch.no_grad():
        step = gma_torch.explain(
            **make_inputs(queries=1), is_causal=True, initial_state=make_state(make_inputs())
        )
    assert step.notes == ("one token after a state: gaussian_mixture_attention_step costs less",)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_autocast_is_the_same_in_explain_and_transforms():
    wide = make_inputs(dtype=torch.float32)
    cases = [
        (wide, "BFloat16"),
        (make_inputs(), "Double"),
        (wide | {"key": wide["key"].bfloat16()}, "BFloat16"),
        (wide | {name: wide[name].bfloat16() for name in NAMES[3:]}, "BFloat16"),
    ]
    for inputs, name in cases:
        with torch.autocast("cpu", torch.bfloat16):
            expected = attention(**inputs)[0]
            found = gma_torch.explain(**inputs)
            each = torch.func.vmap(lambda *rows: attention(*rows)[0])(
                *(tensor.unsqueeze(0) for tensor in inputs.values())
            )
        assert f"kernels for {name}" in found.reason
        assert any(note.startswith("autocast") for note in found.notes) == (name == "BFloat16")
        assert each.dtype == expected.dtype and torch.equal(each[0], expected)
    mixed = wide | {"query": wide["query"].double()}
    for call in (attention, gma_torch.explain):
        with torch.autocast("cpu", torch.bfloat16), pytest.raises(TypeError, match="^key: expected"):
            call(**mixed)


def test_explain_refuses_what_the_call_refuses():
    inputs = make_inputs()
    with pytest.raises(TypeError, match="is_casual"):
        gma_torch.explain(**inputs, is_casual=True)
    with pytest.raises(ValueError, match="^key: expected device cpu as of query, got meta"):
        gma_torch.explain(**(inputs | {"key": inputs["key"].to("meta")}))
    short = inputs | {"value": inputs["value"][:, 1:]}
    with pytest.raises(ValueError, match="^value: expected shape"):
        attention(**short)
    with pytest.raises(ValueError, match="^value: expected shape"):
        gma_torch.explain(**short)
    assert composite_attention(**inputs)[0].shape == (2, 7, 2, 5)
