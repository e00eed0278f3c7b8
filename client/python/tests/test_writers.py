"""Jacobians on disk: complete or not there, the command line's own folder, continued after a kill at any byte."""

from __future__ import annotations

import fcntl
import filecmp
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import zarr

import jacserve
from golden import Case
from jacserve.writers.file_names import file_stems
from jacserve.writers.zarr import chunk_shape, step_shape, steps_of
from processes import environment, wait_until

FORMATS = ["npy", "safetensors", "zarr"]


def write(jac: jacserve.Jacobian, form: str, path: Path, **options: Any) -> None:
    getattr(jac, f"to_{form}")(path, **options)


def read(form: str, path: Path) -> dict[str, np.ndarray]:
    """Arrays by block name, and "target.value"."""
    if form == "npy":
        index = json.loads((path / "index.json").read_text())
        arrays = {b["name"]: np.load(path / b["file"], mmap_mode="r") for b in index["blocks"] if b["file"]}
        return {**arrays, "target.value": np.load(path / "value.npy")}
    if form == "safetensors":
        with safetensors.safe_open(path, "np") as file:
            return {name: file.get_tensor(name) for name in file.offset_keys()}
    group = zarr.open_group(str(path), mode="r")
    return {group[name].attrs.get("name", name): group[name][...] for name in group.array_keys()}


def assert_holds(form: str, path: Path, jac: jacserve.Jacobian) -> None:
    arrays, rows = read(form, path), jac.rows()
    assert arrays.keys() == {"target.value", *(name for name, block in jac.blocks.items() if block.connected)}
    assert np.array_equal(arrays["target.value"], jac.value)
    for name, block in jac.blocks.items():
        if block.connected:
            assert np.array_equal(arrays[name], rows[name].reshape(block.shape)), name


def left_behind(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if "part" in path.name)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("rows", [None, (2, 7), (3, 3)])
def test_all_is_written_and_nothing_else(server: jacserve.Server, tmp_path: Path, form: str, rows: Any) -> None:
    jac = Case("seed_architecture_narrow").jacobian(server, rows=rows)
    write(jac, form, tmp_path / "out")
    assert_holds(form, tmp_path / "out", jac)
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("streams", [1, 2, 5])
def test_streams_side_by_side_give_the_same_files(
    long_jacobian: jacserve.Jacobian, tmp_path: Path, streams: int
) -> None:
    long_jacobian.to_npy(tmp_path / "out", streams=streams)
    assert_holds("npy", tmp_path / "out", long_jacobian)


@pytest.mark.parametrize("rows", [None, (2, 7)])
def test_the_folder_is_the_command_lines_own(
    server: jacserve.Server, bin_folder: Path, tmp_path: Path, rows: Any
) -> None:
    case = Case("seed_architecture_narrow")
    case.jacobian(server, rows=rows).to_npy(tmp_path / "python")
    command = command_line(case, bin_folder, tmp_path, server.address)
    subprocess.run(
        [*command, "--out", tmp_path / "cli", *(["--rows", f"{rows[0]}:{rows[1]}"] if rows else [])],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    names = sorted(path.name for path in (tmp_path / "cli").iterdir())
    assert sorted(path.name for path in (tmp_path / "python").iterdir()) == names
    same, *_ = filecmp.cmpfiles(tmp_path / "cli", tmp_path / "python", names, shallow=False)
    assert sorted(same) == names


def command_line(case: Case, bin_folder: Path, scratch: Path, address: str) -> list[str]:
    for name in "xy":
        np.save(scratch / f"{name}.npy", case.inputs[name])
    words = [f"{bin_folder}/jacserve", "jacobian", case.graph, "--weights", str(case.weights), "--server", address]
    words += ["--input", f"x={scratch}/x.npy", "--second", f"x={scratch}/y.npy", "--pairwise", "cosine"]
    words += ["--sign", "-1", "--epsilon", "1e-12", "--cosine-form", "sqrt_max_sum"]
    return words + [word for name in case.about["wrt"] for word in ("--wrt", name)]


# 3,136 rows of 0.4 MB in blocks, as the seed's: long enough to be interrupted.
SEED_SMALL = ["Conv*", "dense1.*"]
SEED_ROWS = (0, 768)
WRITER = """
    import sys, jacserve
    from golden import Case
    jac = Case("seed_full").jacobian(sys.argv[1], wrt=%r, rows=%r)
    jac.to_%s(sys.argv[2])
"""


# Records soon come every few seconds only; for tests more often, and rows slowly enough to be interrupted.
EAGER = """
    import time, jacserve.stream, jacserve.writers.record
    jacserve.writers.record._SAVE_SECONDS = 0.05
    on_message = jacserve.stream.StreamChecker.on_message
    jacserve.stream.StreamChecker.on_message = lambda *message: (time.sleep(0.01), on_message(*message))
"""


@pytest.fixture(scope="module")
def seed_rows(server: jacserve.Server) -> jacserve.Jacobian:
    return Case("seed_full").jacobian(server, wrt=SEED_SMALL, rows=SEED_ROWS)


@pytest.mark.parametrize("form", FORMATS)
def test_a_killed_run_is_continued_with_the_missing_rows(
    server: jacserve.Server, seed_rows: jacserve.Jacobian, tmp_path: Path, form: str
) -> None:
    out = tmp_path / "out"
    code = textwrap.dedent(EAGER) + textwrap.dedent(WRITER % (SEED_SMALL, SEED_ROWS, form))
    kill_after = random.Random(form).uniform(0.02, 0.3)
    process = subprocess.Popen([sys.executable, "-c", code, server.address, out], env=environment())
    record = tmp_path / RECORDS[form]
    wait_until(lambda: process.poll() is not None or (record.exists() and done_rows(record)), "rows are done", 120)
    time.sleep(kill_after)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    before = done_rows(record)
    assert 0 < before < 768
    assert not (out / "index.json").exists()
    asked: list[int] = []
    open_stream = server.open_stream

    def counting(request: Any) -> Any:
        asked.append(request.rows.count + sum(more.count for more in request.more_rows))
        return open_stream(request)

    server.open_stream = counting  # type: ignore[method-assign]
    try:
        write(seed_rows, form, out)
    finally:
        del server.open_stream  # type: ignore[method-assign]
    assert sum(asked) == 768 - before
    assert_holds(form, out, seed_rows)
    assert left_behind(tmp_path) == []


def test_an_interrupted_run_keeps_what_is_done(server: jacserve.Server, tmp_path: Path) -> None:
    code = textwrap.dedent(EAGER) + "jacserve.writers.record._SAVE_SECONDS = 1e9\n"
    code += textwrap.dedent(WRITER % (SEED_SMALL, SEED_ROWS, "npy"))
    command = [sys.executable, "-c", code, server.address, tmp_path / "out"]
    process = subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True)
    wait_until(lambda: (tmp_path / "out/.part/value.npy").exists(), "its files", 120)
    wait_until(lambda: server.info().jobs_running == 2, "its two streams")
    time.sleep(0.6)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in err
    assert 0 < done_rows(tmp_path / "out/.part/progress.json") < 768


def done_rows(record: Path) -> int:
    try:
        return sum(count for _, count in json.loads(record.read_text())["done"])
    except FileNotFoundError:
        return 0


def test_what_the_command_line_left_is_continued(server: jacserve.Server, bin_folder: Path, tmp_path: Path) -> None:
    case = Case("seed_full")
    words = command_line(case, bin_folder, tmp_path, server.address)
    words = [*words[: words.index("--wrt")], "--wrt", "Conv*", "--wrt", "dense1.*", "--rows", "0:1536"]
    process = subprocess.Popen(
        [*words, "--out", tmp_path / "out"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait_until(lambda: server.info().jobs_running, "the job")
    wait_until(lambda: (tmp_path / "out/.part/Conv.bias.npy").exists(), "its files")
    time.sleep(0.15)
    process.send_signal(signal.SIGINT)  # it keeps what is done
    process.wait()
    record = tmp_path / "out/.part/progress.json"
    if not record.exists():
        pytest.fail("the command line left no record")
    jac = case.jacobian(server, wrt=SEED_SMALL, rows=(0, 1536))
    first = json.loads(record.read_text())
    assert first["fingerprint"] == jac.prepared.fingerprint((0, 1536))
    jac.to_npy(tmp_path / "out")
    assert_holds("npy", tmp_path / "out", jac)


OF_ANOTHER = '{"format": 1, "fingerprint": "other", "rows": [0, 15], "done": %s, "files": {}}'
RECORDS = {"npy": "out/.part/progress.json", "safetensors": "out.part.json", "zarr": "out.part/jacserve-progress.json"}


@pytest.mark.parametrize("form", FORMATS)
def test_rows_that_another_request_left_are_removed_only_when_asked(
    server: jacserve.Server, mlp: Case, tmp_path: Path, form: str
) -> None:
    jac, out, record = mlp.jacobian(server), tmp_path / "out", tmp_path / RECORDS[form]
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(OF_ANOTHER % "[[0, 9]]")
    rows = tmp_path / "out.part" if form == "safetensors" else record.with_name("old.npy")
    rows.write_bytes(b"x" * 1000)
    with pytest.raises(jacserve.PreconditionError, match=r"(?s)9 of 15 rows of another request.*overwrite=True"):
        write(jac, form, out)
    assert record.exists()
    assert rows.read_bytes() == b"x" * 1000
    write(jac, form, out, overwrite=True)
    assert_holds(form, out, jac)
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("form", FORMATS)
def test_what_another_request_left_without_a_row_is_removed(
    server: jacserve.Server, mlp: Case, tmp_path: Path, form: str
) -> None:
    jac, record = mlp.jacobian(server), tmp_path / RECORDS[form]
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(OF_ANOTHER % "[]")
    write(jac, form, tmp_path / "out")
    assert_holds(form, tmp_path / "out", jac)
    assert left_behind(tmp_path) == []


DAMAGED_RECORDS = [
    "",
    "{",
    "[]",
    '{"format": 1}',
    '{"format": 1, "fingerprint": "%s", "rows": [0, 15], "done": [[0, 99]]}',
]


@pytest.mark.parametrize("text", DAMAGED_RECORDS)
def test_a_damaged_record_is_not_believed(server: jacserve.Server, mlp: Case, tmp_path: Path, text: str) -> None:
    jac = mlp.jacobian(server)
    (tmp_path / ".part").mkdir()
    (tmp_path / ".part/progress.json").write_text(text.replace("%s", jac.prepared.fingerprint(None)))
    jac.to_npy(tmp_path)
    assert_holds("npy", tmp_path, jac)


@pytest.mark.parametrize("form", FORMATS)
def test_two_runs_do_not_write_the_same(server: jacserve.Server, mlp: Case, tmp_path: Path, form: str) -> None:
    jac = mlp.jacobian(server)
    out = tmp_path / "out"
    held = {"npy": out, "safetensors": tmp_path / "out.part", "zarr": tmp_path / "out.part"}[form]
    held.touch() if form == "safetensors" else held.mkdir()
    fd = os.open(held, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    with pytest.raises(jacserve.PreconditionError, match="another run"):
        write(jac, form, out)
    os.close(fd)
    write(jac, form, out)
    assert_holds(form, out, jac)


def test_a_result_that_does_not_fit_is_said_before_anything_is_computed(
    server: jacserve.Server, tmp_path: Path
) -> None:
    code = """
    import resource, sys, jacserve
    from golden import Case
    jac = Case("seed_full").jacobian(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 28, 1 << 28))
    try:
        jac.to_npy(sys.argv[2])
    except jacserve.ResourceError as error:
        print(error)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), server.address, tmp_path / "out"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    assert "no room" in done.stdout
    assert "free some space" in done.stdout


def test_files_of_others_are_not_replaced(server: jacserve.Server, mlp: Case, tmp_path: Path) -> None:
    jac = mlp.jacobian(server)
    (tmp_path / "0.weight.npy").write_text("not ours")
    with pytest.raises(jacserve.PreconditionError, match=r"holds 0\.weight\.npy"):
        jac.to_npy(tmp_path)
    assert (tmp_path / "0.weight.npy").read_text() == "not ours"
    (tmp_path / "0.weight.npy").unlink()
    jac.to_npy(tmp_path)
    jac.to_npy(tmp_path, overwrite=True)  # its own result may be replaced


@pytest.mark.parametrize("form", FORMATS)
def test_a_finished_result_is_neither_repeated_nor_replaced_unasked(
    server: jacserve.Server, mlp: Case, tmp_path: Path, form: str
) -> None:
    jac, part, out = mlp.jacobian(server), mlp.jacobian(server, rows=(0, 2)), tmp_path / "out"
    write(jac, form, out)
    first = out / "index.json" if form == "npy" else out
    written = first.stat().st_mtime_ns
    write(jac, form, out)
    assert first.stat().st_mtime_ns == written
    with pytest.raises(jacserve.PreconditionError, match=r"(?s)another request \(15 rows\).*overwrite=True"):
        write(part, form, out)
    assert_holds(form, out, jac)
    write(part, form, out, overwrite=True)
    assert_holds(form, out, part)
    assert left_behind(tmp_path) == []


def test_a_result_that_lacks_a_file_is_computed_again(server: jacserve.Server, mlp: Case, tmp_path: Path) -> None:
    jac = mlp.jacobian(server)
    jac.to_npy(tmp_path)
    (tmp_path / "0.weight.npy").unlink()
    jac.to_npy(tmp_path)
    assert_holds("npy", tmp_path, jac)


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("form", FORMATS)
def test_what_is_no_result_is_not_replaced(
    server: jacserve.Server, mlp: Case, tmp_path: Path, form: str, overwrite: bool
) -> None:
    theirs = {"npy": "out/index.json", "safetensors": "out", "zarr": "out/pages.txt"}[form]
    (tmp_path / theirs).parent.mkdir(exist_ok=True)
    (tmp_path / theirs).write_text('{"pages": 3}')
    with pytest.raises(jacserve.PreconditionError, match="no result"):
        write(mlp.jacobian(server), form, tmp_path / "out", overwrite=overwrite)
    assert (tmp_path / theirs).read_text() == '{"pages": 3}'


def test_zarr_chunks_are_no_larger_than_asked(seed_rows: jacserve.Jacobian, tmp_path: Path) -> None:
    seed_rows.to_zarr(tmp_path / "out", chunk_size="1MiB")
    group = zarr.open_group(str(tmp_path / "out"), mode="r")
    for name in group.array_keys():
        array = group[name]
        assert np.prod(array.chunks) * array.dtype.itemsize <= 1 << 20
    assert group["Conv2.kernel"].chunks[0] > 1


@pytest.mark.parametrize("rows", [1, 2, 5, 7, 12, 100])
@pytest.mark.parametrize("target", [(), (7,), (4, 3), (2, 3, 5), (0, 3)])
def test_steps_are_runs_of_rows_and_chunks_divide_them(target: tuple[int, ...], rows: int) -> None:
    step = step_shape(target, rows)
    numbers = np.arange(np.prod(target, dtype=int)).reshape(target)
    at = 0
    for (begin, end), place in steps_of(target, step):
        assert (begin, end - begin <= rows) == (at, True)
        assert numbers[place].reshape(-1).tolist() == list(range(begin, end))
        at = end
    assert at == numbers.size
    for limit in (0, 1, 2, 3, 6, 50):
        chunk = chunk_shape(step, limit)
        assert np.prod(chunk, dtype=int) <= max(1, limit)
        assert all(side % part == 0 for side, part in zip(step, chunk, strict=True))


def test_file_names_are_safe_and_different() -> None:
    names = ["a/b", "a:b", "A_B", "value", "", ".hidden", "ä", "x" * 500]
    stems = file_stems(names)
    assert stems[:6] == ["a_b", "a_b-2", "A_B-3", "value-2", "_", "_.hidden"]
    assert len({stem.lower() for stem in stems}) == len(names)
    assert all(len(stem) <= 200 and stem.isascii() and "/" not in stem for stem in stems)
