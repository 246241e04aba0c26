# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""The language model in transformers: auto classes, generate, Trainer, saving."""

import dataclasses

import pytest
import torch
from support import assert_close

from gma_torch import GmaConfig, GmaForCausalLM, parameter_groups

pytest.importorskip("transformers", reason="transformers is not installed")

from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    GenerationConfig,
    Trainer,
    TrainingArguments,
)

from gma_torch.huggingface import GmaPretrainedConfig, GmaPretrainedForCausalLM


def make_model(**options):
    torch.manual_seed(0)
    sizes = {"vocab_size": 40, "hidden_size": 32, "num_layers": 2, "num_components": 6}
    config = AutoConfig.for_model("gma", **(sizes | {"use_short_conv": True} | options))
    return AutoModelForCausalLM.from_config(config).eval()


@pytest.fixture(scope="module")
def model():
    return make_model()


def test_auto_classes_find_the_model(model):
    assert type(model) is GmaPretrainedForCausalLM
    assert type(model.config) is GmaPretrainedConfig
    fields = {field.name for field in dataclasses.fields(GmaConfig)} - {"max_length"}
    assert fields <= set(model.config.to_dict())
    weight = model.transformer.blocks[0].down.weight
    assert 0.008 < weight.std() < 0.012, "0.02 over the square root of four residual branches"
    with pytest.raises(TypeError, match="^config: expected known fields only, got 'hiden_size'"):
        AutoConfig.for_model("gma", hiden_size=3)


@pytest.mark.parametrize("tie_embeddings", [True, False])
def test_saved_and_loaded_models_have_the_same_bits(tie_embeddings, tmp_path):
    model = make_model(tie_embeddings=tie_embeddings)
    ids = torch.randint(40, (2, 9))
    model.save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert not loaded.training
    assert torch.equal(loaded(ids).logits, model(ids).logits)
    narrow = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16)
    mixer = narrow.transformer.blocks[0].mixer
    assert mixer.q_proj.weight.dtype == torch.bfloat16 and mixer.means.dtype == torch.float32
    assert narrow(ids).logits.dtype == torch.bfloat16


def test_special_tokens_and_foreign_attributes_survive(tmp_path):
    ids = {"eos_token_id": 2, "pad_token_id": 0}
    assert AutoConfig.for_model("gma", **ids).eos_token_id == 2
    model = make_model(**ids)
    # What a Trainer with a tokenizer does, and what somebody may do.
    model.config.bos_token_id, model.config.note = 1, {"run": 7}
    arguments = TrainingArguments(output_dir=str(tmp_path), report_to=[], use_cpu=True)
    Trainer(model=model, args=arguments).save_model()
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert (loaded.config.bos_token_id, loaded.config.eos_token_id) == (1, 2)
    assert loaded.config.note == {"run": 7} and loaded.generation_config.eos_token_id == 2
    assert AutoConfig.from_pretrained(tmp_path, note="mine").note == "mine"
    assert torch.equal(loaded(torch.tensor([[3]])).logits, model(torch.tensor([[3]])).logits)


@pytest.mark.parametrize("tie_embeddings", [True, False])
def test_the_vocabulary_grows(tie_embeddings, tmp_path):
    model = make_model(tie_embeddings=tie_embeddings)
    ids = torch.randint(40, (1, 5))
    before = model(ids).logits
    model.resize_token_embeddings(43)
    after = model(ids).logits
    assert after.shape == (1, 5, 43) and torch.equal(after[..., :40], before)
    assert model(torch.tensor([[42]])).logits.isfinite().all()
    assert model.to_gma().config.vocab_size == 43
    model.save_pretrained(tmp_path)
    assert torch.equal(AutoModelForCausalLM.from_pretrained(tmp_path)(ids).logits, after)
    with pytest.raises(ValueError, match=r"^tokens: expected values in \[0, 43\), got 43"):
        model(torch.tensor([[43]]))


def test_it_is_the_plain_model(model):
    plain = model.to_gma()
    again = GmaPretrainedForCausalLM.from_gma(plain)
    ids = torch.randint(40, (2, 9))
    expected = plain(ids)
    assert isinstance(plain, GmaForCausalLM)
    assert torch.equal(model(ids).logits, expected) and torch.equal(again(ids).logits, expected)
    assert_close(model(ids, logits_to_keep=2, use_cache=False).logits, expected[:, -2:], 1e-5)
    output = model(ids, labels=ids, return_dict=False)
    loss = torch.nn.functional.cross_entropy(expected[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    assert_close(output[0], loss, 1e-6)


def test_generation_with_a_cache_is_generation_without(model):
    ids = torch.randint(1, 40, (2, 5))
    settings = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    lengths = []
    handle = model.transformer.register_forward_pre_hook(lambda _, args: lengths.append(args[0].size(1)))
    cached = model.generate(ids, **settings)
    handle.remove()
    assert lengths == [5] + [1] * 7
    assert torch.equal(cached, model.generate(ids, **settings, use_cache=False))


def test_left_padding_is_each_prompt_alone(model):
    prompts = [torch.randint(1, 40, (length,)) for length in (3, 7)]
    ids, mask = torch.zeros(2, 7, dtype=torch.int64), torch.zeros(2, 7, dtype=torch.int64)
    for row, prompt in enumerate(prompts):
        ids[row, 7 - len(prompt) :], mask[row, 7 - len(prompt) :] = prompt, 1
    settings = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    together = model.generate(ids, attention_mask=mask, **settings)
    for row, prompt in enumerate(prompts):
        alone = model.generate(prompt.unsqueeze(0), **settings)
        assert torch.equal(together[row, 7:], alone[0, len(prompt) :])
    with pytest.raises(ValueError, match="^attention_mask: expected shape"):
        model(ids, attention_mask=mask[:, :3])


def test_padding_behind_is_for_losses(model):
    ids, mask = torch.randint(1, 40, (2, 7)), torch.ones(2, 7, dtype=torch.int64)
    mask[1, 4:] = 0
    labels = ids.masked_fill(mask == 0, -100)
    output = model(ids, attention_mask=mask, labels=labels)
    assert output.cache is None and model(ids, labels=ids).cache is None
    assert_close(output.logits[1, :4], model(ids[1:, :4]).logits[0], 1e-5)
    assert model(ids, attention_mask=mask).cache is None
    with pytest.raises(ValueError, match="^attention_mask: expected padding in front beside a cache"):
        model(ids, attention_mask=mask, use_cache=True)
    assert model(ids, attention_mask=mask.flip(1)).cache.position == 7


def best_beams(model, prompt, beams, steps):
    """Beam search over whole sequences, written plainly."""
    running = [(0.0, prompt)]
    for _ in range(steps):
        candidates = []
        for score, sequence in running:
            scores = model(sequence.unsqueeze(0), use_cache=False).logits[0, -1].log_softmax(-1)
            candidates += [
                (score + float(scores[token]), torch.cat((sequence, token.view(1))))
                for token in torch.arange(len(scores))
            ]
        running = sorted(candidates, key=lambda each: -each[0])[:beams]
    return running[0][1]


def test_beam_search_reorders_the_cache(model):
    prompt = torch.randint(1, 40, (4,))
    settings = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    with torch.inference_mode():
        found = model.generate(prompt.unsqueeze(0), num_beams=3, **settings)[0]
        assert torch.equal(found, best_beams(model, prompt, 3, 5))


def test_generation_goes_on_from_a_cache(model):
    ids = torch.randint(1, 40, (1, 6))
    settings = GenerationConfig(
        max_new_tokens=4, do_sample=False, pad_token_id=0, return_dict_in_generate=True
    )
    whole = model.generate(ids, generation_config=settings).sequences
    with torch.no_grad():
        cache = model(ids[:, :5]).cache
    cache, copy = cache.clone(), cache.detach().to("cpu")
    continued = model.generate(ids, cache=cache, generation_config=settings)
    assert torch.equal(model.generate(ids, cache=copy, generation_config=settings).sequences, whole)
    assert torch.equal(continued.sequences, whole)
    assert continued.cache.position == 9 and continued.cache.get_seq_length() == 9


def test_the_trainer_lowers_the_loss(tmp_path):
    model = make_model(use_short_conv=False).train()
    rows = [torch.arange(12).roll(shift) for shift in range(4)] * 8
    data = [{"input_ids": row, "labels": row} for row in rows]
    arguments = TrainingArguments(
        output_dir=str(tmp_path),
        max_steps=12,
        per_device_train_batch_size=4,
        learning_rate=1e-2,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
    )
    # The parameters that a Trainer decays by itself are those of no bias and no norm.
    decayed, kept = parameter_groups(model)
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": kept, "weight_decay": 0.0}], lr=1e-2
    )
    trainer = Trainer(
        model=model, args=arguments, train_dataset=data, optimizers=(optimizer, None)
    )
    trainer.train()
    decays = {
        id(parameter): group["weight_decay"]
        for group in trainer.optimizer.param_groups
        for parameter in group["params"]
    }
    mixture = ("means", "raw_variances", "prior_logits")
    for name, parameter in model.named_parameters():
        is_decayed = parameter.dim() >= 2 and not name.endswith(mixture)
        assert decays[id(parameter)] == (0.1 if is_decayed else 0.0), name
    losses = [record["loss"] for record in trainer.state.log_history if "loss" in record]
    assert len(losses) == 12 and losses[-1] < 0.8 * losses[0]
