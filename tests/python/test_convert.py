# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""replace_attention: projections are kept, masks mean the same, the rest of the model is untouched."""

import pytest
import torch
from support import assert_close
from torch import nn

from gma_torch import replace_attention


def make_encoder(batch_first=True, **options):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(
        16, 4, 32, dropout=0.0, batch_first=batch_first, dtype=torch.float64, **options
    )
    return nn.TransformerEncoder(layer, 3, enable_nested_tensor=False).eval()


@pytest.mark.parametrize("bias", [True, False])
def test_projections_of_multihead_attention_are_kept(bias):
    encoder = make_encoder(bias=bias)
    old = encoder.layers[1].self_attn
    names = replace_attention(encoder, layers=[1], num_components=5)
    assert names == ["layers.1.self_attn"]
    new = encoder.layers[1].self_attn.attention
    for linear, weight in zip((new.q_proj, new.k_proj, new.v_proj), old.in_proj_weight.chunk(3)):
        assert torch.equal(linear.weight, weight)
    assert torch.equal(new.o_proj.weight, old.out_proj.weight)
    if bias:
        assert torch.equal(new.k_proj.bias, old.in_proj_bias.chunk(3)[1])
    assert isinstance(encoder.layers[0].self_attn, nn.MultiheadAttention)
    assert encoder(torch.randn(2, 6, 16, dtype=torch.float64)).shape == (2, 6, 16)


@pytest.mark.parametrize("batch_first", [True, False])
def test_masks_of_multihead_attention_mean_the_same(batch_first):
    encoder = make_encoder(batch_first)
    replace_attention(encoder, num_components=5)
    x = torch.randn(2, 6, 16, dtype=torch.float64)
    ignored = torch.tensor([[False] * 6, [False] * 4 + [True] * 2])

    def run(x, ignored=None):
        output = encoder(x if batch_first else x.transpose(0, 1), src_key_padding_mask=ignored)
        return output if batch_first else output.transpose(0, 1)

    assert_close(run(x, ignored)[1:, :4], run(x[1:, :4]), 1e-12)

    causal = make_encoder(batch_first)
    replace_attention(causal, num_components=5, is_causal=True)
    mask = nn.Transformer.generate_square_subsequent_mask(6, dtype=torch.float64)
    moved = x if batch_first else x.transpose(0, 1)
    output = causal(moved, mask=mask, is_causal=True)
    assert torch.equal(causal(moved, mask=mask), output)
    short = causal(x[:, :3] if batch_first else x[:, :3].transpose(0, 1))
    kept = output[:, :3] if batch_first else output[:3]
    assert_close(kept, short, 1e-12)


def test_multihead_attention_refuses_what_it_cannot_do():
    attention = nn.Sequential(nn.MultiheadAttention(16, 4, batch_first=True))
    replace_attention(attention, num_components=5)
    x = torch.randn(2, 6, 16)
    with pytest.raises(ValueError, match="^value: expected the tensor that key is"):
        attention[0](x, x, x.clone())
    with pytest.raises(ValueError, match="^attn_mask: expected None in a module converted with"):
        attention[0](x, x, x, attn_mask=torch.zeros(6, 6))
    context = torch.randn(2, 9, 16)
    output, weights = attention[0](x, context, context)
    assert output.shape == x.shape and weights is None
    causal = nn.Sequential(nn.MultiheadAttention(16, 4, batch_first=True))
    replace_attention(causal, num_components=5, is_causal=True)
    with pytest.raises(ValueError, match="^attn_mask: expected a causal one"):
        causal[0](x, x, x, attn_mask=torch.eye(6, dtype=torch.bool))
    with pytest.raises(ValueError, match="^attn_mask: expected 0 or -inf"):
        causal[0](x, x, x, attn_mask=-0.1 * torch.ones(6, 6).triu(1))
    with pytest.raises(TypeError, match="^key_padding_mask: expected a bool or floating-point mask"):
        attention[0](x, x, x, key_padding_mask=torch.zeros(2, 6, dtype=torch.int64))
    bias = torch.zeros(2, 6)
    bias[0, 2] = -0.1
    with pytest.raises(ValueError, match="^key_padding_mask: expected 0 or -inf"):
        attention[0](x, x, x, key_padding_mask=bias)


@pytest.mark.parametrize("layers", [None, [1]])
def test_a_default_encoder_takes_padding(layers):
    """In evaluation torch would pack the batch into a nested tensor."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2).eval()
    assert encoder.use_nested_tensor
    x, ignored = torch.randn(2, 6, 16), torch.tensor([[False] * 6, [False] * 4 + [True] * 2])
    sample = {"src": x, "src_key_padding_mask": ignored}
    replace_attention(encoder, layers=layers, num_components=5, sample=sample)
    with torch.no_grad():
        assert_close(encoder(**sample)[1:, :4], encoder(x[1:, :4]), 1e-4)


def test_a_causal_decoder_reads_all_of_its_memory():
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 4, batch_first=True), 1).eval()
    names = replace_attention(decoder, num_components=5, is_causal=True)
    assert names == ["layers.0.self_attn", "layers.0.multihead_attn"]
    x, memory = torch.randn(2, 5, 16), torch.randn(2, 7, 16)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    output = decoder(x, memory, tgt_mask=mask)
    assert_close(decoder(x[:, :3], memory, tgt_mask=mask[:3, :3]), output[:, :3], 1e-4)
    memory[:, -1] += 1
    assert (decoder(x, memory, tgt_mask=mask)[:, 0] != output[:, 0]).any()


def test_shared_attention_stays_shared_and_frozen_stays_frozen():
    model = nn.ModuleDict({"a": nn.MultiheadAttention(16, 4), "rest": nn.Linear(16, 16)})
    model["b"] = model["a"].requires_grad_(False)
    assert replace_attention(model, num_components=5) == ["a", "b"]
    assert model["a"] is model["b"] and not isinstance(model["a"], nn.MultiheadAttention)
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    mixture = {f"a.attention.{name}" for name in ("means", "raw_variances", "prior_logits")}
    assert trained == mixture | {"rest.weight", "rest.bias"}


def test_models_without_attention_are_refused():
    with pytest.raises(ValueError, match="^model: expected nn.MultiheadAttention or .* a Linear"):
        replace_attention(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="^model: expected attention inside of a model, got a Multi"):
        replace_attention(nn.MultiheadAttention(16, 4))
    with pytest.raises(ValueError, match="^model: expected nn.MultiheadAttention with add_bias_kv"):
        replace_attention(nn.Sequential(nn.MultiheadAttention(16, 4, add_bias_kv=True)))
    with pytest.raises(ValueError, match=r"^layers: expected in \[0, 3\), got 3"):
        replace_attention(make_encoder(), layers=[3])
    with pytest.raises(TypeError, match="^layers: expected ints or None, got int"):
        replace_attention(make_encoder(), layers=0)
    with pytest.raises(TypeError, match="^layers: expected int, got str"):
        replace_attention(make_encoder(), layers=["0"])
    with pytest.raises(TypeError, match="num_component"):
        replace_attention(make_encoder(), num_component=3)


def make_gpt2():
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=40, n_positions=32, n_embd=16, n_layer=2, n_head=4, eos_token_id=0
    )
    return transformers.GPT2LMHeadModel(config).eval()


def test_projections_of_gpt2_are_kept():
    model = make_gpt2()
    x = torch.randn(2, 5, 16)
    expected = [block.attn.c_attn(x).split(16, -1) for block in model.transformer.h]
    outputs = [block.attn.c_proj(x) for block in model.transformer.h]
    names = replace_attention(model, num_components=5)
    assert names == ["transformer.h.0.attn", "transformer.h.1.attn"]
    for block, streams, output in zip(model.transformer.h, expected, outputs, strict=True):
        new = block.attn.attention
        assert new.is_causal and new.rotary is None
        for linear, stream in zip((new.q_proj, new.k_proj, new.v_proj), streams, strict=True):
            assert_close(linear(x), stream, 1e-6)
        assert_close(new.o_proj(x), output, 1e-6)


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_gpt2_generates_and_pads_and_trains(implementation):
    model = make_gpt2()
    model.set_attn_implementation(implementation)
    ids = torch.randint(1, 40, (2, 7))
    replace_attention(model, num_components=5, sample={"input_ids": torch.randint(40, (2, 16))})
    assert model.transformer.h[0].attn.attention.means.std() < 0.5, "as small as its routing vectors"
    logits = model(ids).logits
    assert_close(model(ids[:, :4]).logits, logits[:, :4], 1e-4)
    mask = torch.ones_like(ids)
    mask[0, 5:] = 0
    assert_close(model(ids, attention_mask=mask).logits[0, :5], logits[0, :5], 1e-4)
    mask = mask.flip(1)
    shifted = ids[0].roll(2).unsqueeze(0)
    positions = (mask[:1].cumsum(1) - 1).clamp_min(0)
    padded = model(shifted, attention_mask=mask[:1], position_ids=positions).logits[0, 2:]
    assert_close(padded, logits[0, :5], 1e-4)
    tokens = model.generate(ids, max_new_tokens=3, do_sample=False, pad_token_id=0)
    assert tokens.shape == (2, 10)
    model.train()
    model(ids, labels=ids).loss.backward()
    assert model.transformer.h[1].attn.attention.means.grad.any()
    with pytest.raises(ValueError, match="^cache: expected None"):
        model(ids, use_cache=True)
    packed = torch.tensor([[0, 1, 2, 3, 4, 0, 1]])
    with pytest.raises(ValueError, match="^attention_mask: expected causal attention and padding"):
        model(ids[:1], position_ids=packed)


def test_a_swapped_gpt2_is_swapped_again_to_be_loaded(tmp_path):
    model, ids = make_gpt2(), torch.randint(1, 40, (2, 7))
    replace_attention(model, num_components=5)
    torch.save(model.state_dict(), tmp_path / "weights")
    again = make_gpt2()
    replace_attention(again, num_components=5)
    again.load_state_dict(torch.load(tmp_path / "weights"))
    assert torch.equal(again(ids).logits, model(ids).logits)
