"""``python -m explorer.costs.fit FOLDER``: curves by device and class from measured kernels, and how well they hold."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from explorer.costs import curves as shipped
from explorer.costs.curves import AttentionCurve, Curve, HeldOut, MeasuredLink
from explorer.costs.efficiency import WorkClass
from explorer.costs.fit.fitting import fit
from explorer.costs.fit.kernels import Kernels, read_kernels
from explorer.costs.fit.links import links_in
from explorer.files import write_file
from solvers.errors import InvalidProblem

SOURCE = (
    "ai-dynamo/aiconfigurator, aic-core/src/aiconfigurator_core/systems/data (Apache-2.0);"
    " microsoft/vidur, data/profiling (MIT)"
)
DIGITS = 4


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the table and prints held-out errors before and after, in Markdown."""
    parser = argparse.ArgumentParser(
        prog="python -m explorer.costs.fit",
        description="Fit curves of kernels to those in FOLDER (gemm_*.csv.gz: m, n, k, milliseconds;"
        " attention_*.csv.gz: batch, sequence, heads, kv_heads, head_dim, milliseconds;"
        " layer_operators_*.csv.gz: operator, tokens, hidden, milliseconds) and lines to messages and collectives"
        " (send_receive_*.csv.gz: workers, devices_per_node, size, milliseconds; nccl_*.csv.gz: operation, gpus,"
        " elements_16_bit, milliseconds), half of them held out.",
        epilog="example: python -m explorer.costs.fit measured --dry-run",
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--source", default=SOURCE, help="where the kernels are from, and under which licence")
    parser.add_argument("--dry-run", action="store_true", help="print how well the curves hold, and write nothing")
    args = parser.parse_args(argv)
    try:
        written = []
        print("| device | class | kernels fitted | held out | by shares alone, 10 / 50 / 90 % | by the curve |")
        print("|---|---|---:|---:|---:|---:|")
        for kernels in read_kernels(args.folder):
            curve = fit(kernels)
            written.append(_json(curve))
            print(_row(kernels, curve), flush=True)
        links = list(links_in(args.folder))
        _print_links(links)
        if not args.dry_run:
            value = {"source": args.source, "fitted": f"{datetime.now(UTC):%Y-%m-%d}", "curves": written}
            value["links"] = [_link_json(link) for link in links]
            write_file(shipped.TABLE, json.dumps(value, indent=1) + "\n", "keeping the curves of kernels")
    except InvalidProblem as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _print_links(links: Sequence[MeasuredLink]) -> None:
    print("\n| device | operation | devices | latency, us | bandwidth, GB/s | sizes | held out | by the line |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    for link in links:
        fitted, of = _link_json(link), link.held_out
        print(
            f"| {link.device} | {link.operation} | {link.devices} | {fitted['latency_us']} | {fitted['gb_per_s']} |"
            f" {link.rows} | {of.rows} | {of.low:.2f} / {of.median:.2f} / {of.high:.2f} |"
        )


def _link_json(link: MeasuredLink) -> dict[str, Any]:
    return {
        "device": link.device,
        "operation": link.operation,
        "devices": link.devices,
        "latency_us": _rounded(link.latency_s * 1e6),
        "gb_per_s": _rounded(link.bandwidth_bytes_per_s * 1e-9),
        "rows": link.rows,
        "held_out": _judgement(link.held_out),
    }


def _row(kernels: Kernels, curve: Curve | AttentionCurve) -> str:
    """A line of the table: estimated over measured of held-out kernels, by shares alone and by the curve."""
    ranges = [f"{each.low:.2f} / {each.median:.2f} / {each.high:.2f}" for each in (curve.by_shares, curve.held_out)]
    return (
        f"| {kernels.device} | {kernels.work} | {curve.rows:,} | {curve.held_out.rows:,} | {ranges[0]} | {ranges[1]} |"
    )


def _json(curve: Curve | AttentionCurve) -> dict[str, Any]:
    """`curves.read_curves` reads it back."""
    judgements = {key: _judgement(getattr(curve, key)) for key in ("held_out", "by_shares")}
    if isinstance(curve, AttentionCurve):
        of: dict[str, Any] = {
            "class": WorkClass.ATTENTION.value,
            "widths": _rounded(curve.widths),
            "sequence": _rounded(curve.sequence),
            "share": _rounded(curve.share),
            "start_us": _rounded(curve.start_s * 1e6),
        }
    else:
        of = {
            "class": curve.work.value,
            "ideal_us": _rounded(curve.ideal_s * 1e6),
            "slowdown": _rounded(curve.slowdown),
        }
    return {"device": curve.device, **of, "rows": curve.rows, **judgements}


def _judgement(of: HeldOut) -> dict[str, float]:
    return {"rows": of.rows} | {key: _rounded(getattr(of, key)) for key in ("low", "median", "high")}


def _rounded(value: Any) -> Any:
    """To a few digits, lists of lists as well."""
    if np.ndim(value):
        return [_rounded(each) for each in value]
    return float(f"{value:.{DIGITS}g}")


if __name__ == "__main__":
    sys.exit(main())
