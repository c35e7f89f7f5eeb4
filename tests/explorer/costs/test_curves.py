"""Curves of kernels: what ships is monotone and bounded by the data sheet, what is fitted comes back, and kernels that
were held out are met."""

from __future__ import annotations

import csv
import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest

from explorer.costs.curves import TABLE, AttentionCurve, Curve, curves
from explorer.costs.devices import DEVICES
from explorer.costs.efficiency import WorkClass
from explorer.costs.fit.__main__ import main
from explorer.costs.fit.fitting import estimated, fit, held_out, never_more
from explorer.costs.fit.kernels import read_kernels
from explorer.costs.roofline import estimate, measured_curve
from solvers.problem.graph import Amount, Operator, OpGraph, Tensor
from tests.solvers.msr_instances import SHARED

MEASURED = SHARED / "measured"
A100 = DEVICES["A100-80GB"]


def test_a_larger_kernel_takes_no_less_time_and_is_no_less_efficient() -> None:
    ideal = np.geomspace(1e-9, 10.0, 2_000)
    assert len(curves().by_class) >= 8
    for curve in curves().by_class.values():
        assert (np.diff(curve.ideal_s) > 0).all()
        seconds = curve.seconds(ideal)
        assert (np.diff(seconds) >= -1e-12 * seconds[1:]).all()
        assert (np.diff(seconds / ideal) <= 1e-9 * (seconds / ideal)[1:]).all()


def test_no_kernel_is_faster_than_the_data_sheet() -> None:
    ideal = np.geomspace(1e-9, 10.0, 500)
    for curve in curves().by_class.values():
        assert (curve.seconds(ideal) >= ideal * (1 - 1e-12)).all()
    for attention in curves().attention.values():
        assert (attention.share <= 1.0).all()
        assert (attention.start_s >= 0.0).all()


def test_a_device_without_kernels_takes_those_of_its_nearest_kin_and_others_keep_the_shares() -> None:
    own = curves().by_class["L40S-48GB", WorkClass.PRODUCTS]
    assert measured_curve(DEVICES["L4-24GB"], "bf16", WorkClass.PRODUCTS) is own
    assert (
        measured_curve(DEVICES["H100-80GB"], "bf16", WorkClass.NORM) is curves().by_class["A100-80GB", WorkClass.NORM]
    )
    for kind, dtype in (("MI300X-192GB", "bf16"), ("cpu", "fp32"), ("A100-80GB", "fp32"), ("V100-16GB", "bf16")):
        assert measured_curve(DEVICES[kind], dtype, WorkClass.PRODUCTS) is None
    assert measured_curve(A100, "bf16", WorkClass.CONVOLUTIONS) is None


def attention(*, causal: bool, op_type: str = "aten.scaled_dot_product_attention") -> OpGraph:
    """32 heads of 128 over 4,096 tokens of one sample, in bf16."""
    heads, tokens, width = 32, 4096, 128
    operator = Operator(
        "attention",
        op_type,
        flops=Amount(per_sample=4.0 * heads * tokens**2 * width),
        moved_bytes=Amount(per_sample=2.0 * 4 * heads * tokens * width),
        causal=causal,
    )
    return OpGraph(
        (operator, Operator("after")), (Tensor(0, (1,), Amount(1.0), (1, heads, tokens, width), "bfloat16"),)
    )


@pytest.mark.parametrize("kind", ["A100-80GB", "MI300X-192GB"])
def test_a_causal_mask_halves_the_arithmetic_of_attention(kind: str) -> None:
    full, half = (estimate(attention(causal=causal), [kind]).seconds[kind][0] for causal in (False, True))
    assert half[5:] / full[5:] == pytest.approx(0.5, rel=0.03)


def test_attention_of_a_4096_token_sequence_reaches_what_was_measured_of_it() -> None:
    """A100, 32 heads of 128, 4,096 tokens: kernels of this shape reach 42 to 43 % of the peak."""
    seconds = estimate(attention(causal=True), ["A100-80GB"]).seconds["A100-80GB"][0]
    share = 0.5 * 4.0 * 32 * 4096**2 * 128 * 8 / (seconds[3] * A100.peak_flops_per_s["bf16"])
    assert 0.40 < share < 0.45


def test_the_sequence_that_never_rises_is_the_nearest_one() -> None:
    assert never_more(np.array([3.0, 1.0, 2.0, 0.5]), np.array([1.0, 1.0, 3.0, 1.0])).tolist() == [3.0, 1.75, 1.75, 0.5]
    assert never_more(np.array([2.0, 1.0]), np.ones(2)).tolist() == [2.0, 1.0]


def made(folder: Path, share: float = 0.7, start_s: float = 3e-6) -> Path:
    """Kernels that keep to a law: products of the A100 at a share of the ideal rate, and attention with a start."""
    with gzip.open(folder / "gemm_a100.csv.gz", "wt", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(("m", "n", "k", "milliseconds"))
        for m in (1024, 2048, 4096, 8192, 16384):
            for n in (1024, 2048, 4096, 8192, 12288, 16384):
                for k in (4096, 8192, 16384):
                    rows.writerow((m, n, k, 1e3 * 2.0 * m * n * k / (share * A100.peak_flops_per_s["bf16"])))
    with gzip.open(folder / "attention_a100.csv.gz", "wt", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(("batch", "sequence", "heads", "kv_heads", "head_dim", "milliseconds"))
        for batch in (1, 2, 4, 8, 16, 32, 64, 128):
            for sequence in (1024, 2048, 4096):
                flops = 2.0 * batch * 32 * sequence**2 * 128
                seconds = start_s + flops / (0.5 * share * A100.peak_flops_per_s["bf16"])
                rows.writerow((batch, sequence, 32, 32, 128, 1e3 * seconds))
    return folder


def test_a_law_comes_back(tmp_path: Path) -> None:
    products, attention_kernels = list(read_kernels(made(tmp_path)))
    curve = fit(products)
    assert isinstance(curve, Curve)
    large = products.ideal_s > 2e-3  # whole waves and tiles
    assert estimated(curve, products)[large] / products.measured_s[large] == pytest.approx(1.0, abs=0.05)
    assert curve.held_out.median == pytest.approx(1.0, abs=0.01)
    by_length = fit(attention_kernels)
    assert isinstance(by_length, AttentionCurve)
    assert by_length.share == pytest.approx(0.35, rel=1e-6)
    assert by_length.start_s == pytest.approx(3e-6, rel=1e-6)


def test_slower_kernels_are_noticed(tmp_path: Path) -> None:
    before = next(read_kernels(made(tmp_path)))
    curve = fit(before)
    after = next(read_kernels(made(tmp_path, share=0.6)))
    assert np.median(estimated(curve, after) / after.measured_s) < 0.9


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no measured kernels"),
        ("plain", "gemm_a100.csv.gz: cannot be read as gzipped CSV"),
        ("m,n\n1,2\n", "gemm_a100.csv.gz.*'k'"),
        ("m,n,k,milliseconds\n1,2,x,4\n", "'x'"),
    ],
)
def test_a_folder_that_cannot_be_read_is_refused_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, message: str
) -> None:
    if content is not None:
        packed = b"not packed" if content == "plain" else gzip.compress(content.encode())
        (tmp_path / "gemm_a100.csv.gz").write_bytes(packed)
    assert main([str(tmp_path), "--dry-run"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(message, line)


@pytest.mark.skipif(
    not MEASURED.is_dir(), reason=f"measured kernels are not at {MEASURED}; set SHARED to their folder's"
)
def test_what_ships_is_what_the_script_makes_and_meets_what_was_held_out() -> None:
    shipped = {(each["device"], each["class"]): each for each in json.loads(TABLE.read_text())["curves"]}
    seen = set()
    for kernels in read_kernels(MEASURED):
        curve, at = fit(kernels), held_out(kernels)
        seen.add((kernels.device, kernels.work.value))
        stated = shipped[kernels.device, kernels.work.value]
        assert stated["rows"] == curve.rows
        assert stated["held_out"]["median"] == pytest.approx(curve.held_out.median, rel=1e-3)
        assert curve.held_out.median == pytest.approx(1.0, abs=0.05)
        errors = (
            np.abs(np.log(seconds[at] / kernels.measured_s[at]))
            for seconds in (estimated(curve, kernels), kernels.by_shares_s)
        )
        by_curve, by_shares = (float(np.median(each)) for each in errors)
        assert by_curve < by_shares
    assert seen == shipped.keys()
