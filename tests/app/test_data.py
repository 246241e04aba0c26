# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""gma data: data sets out of archives and folders, and what is wrong with some of them."""

import gzip
import io
import os
import resource
import signal
import subprocess
import tarfile
import time
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from conftest import command, gma, gma_fails, gma_ok

SHARED = Path(__file__).parents[3] / "shared" / "data"
REVIEWS = {
    "train/neg/0_1.txt": "dull\tand\nlong",
    "train/neg/1_3.txt": "bad<br />worse",
    "train/pos/0_9.txt": "caf\u00e9 fun",
    "test/neg/0_2.txt": "no",
    "test/pos/0_10.txt": "yes\r\n\u0085",
    "train/unsup/0_0.txt": "nobody said",
    "train/labeledBow.feat": "9 0:9",
    "README": "about",
}
TRAIN = "0\tdull and long\n0\tbad<br />worse\n1\tcaf\u00e9 fun\n".encode()
TEST = "0\tno\n1\tyes  \u0085\n".encode()
LISTOPS = {
    "basic_train.tsv": b"Source\tTarget\r\n( ( ( [MAX 4 ) 9 ) ] )\t9\r\n",
    "basic_val.tsv": b"Source\tTarget\r\n( ( ( [MED 4 ) 9 ) ] )\t6\r\n",
    "basic_test.tsv": b"Source\tTarget\r\n( ( ( [SM 4 ) 9 ) ] )\t3\r\n",
}


def make_tar(path: Path, files: dict[str, bytes | tarfile.TarInfo], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as tar:
        for name, content in files.items():
            if isinstance(content, tarfile.TarInfo):
                tar.addfile(content)
                continue
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def make_zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def imdb_files(root: str = "aclImdb/") -> dict[str, bytes]:
    return {root + name: text.encode() for name, text in REVIEWS.items()}


def wikitext_files(ending: str = "tokens", root: str = "wikitext-2/") -> dict[str, bytes]:
    return {
        f"{root}wiki.{split}.{ending}": f" \n = {split} = \n \n a <unk> b \n".encode()
        for split in ("train", "valid", "test")
    }


def contents(folder: Path) -> dict[str, bytes]:
    """All files below a folder, hidden ones as well."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def write_tree(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "new" / "out"


def refuses(kind: str, source: Path, out: Path, *more: object) -> str:
    """What is said of a source that cannot be used; nothing is left behind."""
    before = contents(source.parent)
    message = gma_fails(2, "data", kind, "--from", source, "--out", out, *more)
    assert not out.parent.exists()
    assert contents(source.parent) == before
    return message


@pytest.mark.parametrize("mode", ["w:gz", "w"])
def test_imdb_from_its_archive(mode: str, tmp_path: Path, out: Path) -> None:
    archive = make_tar(tmp_path / "aclImdb_v1.tar.gz", imdb_files(), mode)
    text = gma_ok("data", "imdb", "--from", archive, "--out", out)
    assert contents(out) == {"train.tsv": TRAIN, "test.tsv": TEST}
    assert f"{out}/train.tsv: 3 reviews, " in text
    assert "note: train.tsv has 3 reviews; the data set has 25000 in each split" in text


@pytest.mark.parametrize("root", ["", "aclImdb"])
def test_imdb_from_a_folder(root: str, tmp_path: Path, out: Path) -> None:
    folder = write_tree(tmp_path / "in" / root, imdb_files(""))
    gma_ok("data", "imdb", "--from", tmp_path / "in", "--out", out)
    assert contents(out) == {"train.tsv": TRAIN, "test.tsv": TEST}
    (folder / "train" / "pos" / "0_9.txt").unlink()
    message = refuses("imdb", tmp_path / "in", tmp_path / "other" / "out")
    assert "expected reviews in train/pos/*.txt, got none" in message


def test_imdb_from_lines(tmp_path: Path, out: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "train.tsv.gz").write_bytes(gzip.compress(TRAIN))
    (tmp_path / "in" / "test.tsv").write_bytes(TEST)
    gma_ok("data", "imdb", "--from", tmp_path / "in", "--out", out)
    assert contents(out) == {"train.tsv": TRAIN, "test.tsv": TEST}
    (tmp_path / "in" / "test.tsv").write_text("0\tno\n2\tyes\n")
    assert "test.tsv:2: label 2 is out of range 0 to 1" in refuses(
        "imdb", tmp_path / "in", tmp_path / "other" / "out"
    )


def test_shared_imdb(out: Path) -> None:
    if not (SHARED / "imdb").exists():
        pytest.skip("no shared data beside the project")
    text = gma_ok("data", "imdb", "--from", SHARED / "imdb", "--splits", "test", "--out", out)
    assert "note" not in text
    assert (out / "test.tsv").read_bytes() == gzip.decompress(
        (SHARED / "imdb" / "test.tsv.gz").read_bytes()
    )


@pytest.mark.parametrize("kind", ["wikitext-2", "wikitext-103"])
def test_wikitext_from_its_archive(kind: str, tmp_path: Path, out: Path) -> None:
    files = wikitext_files(root=f"{kind}/")
    archive = make_zip(tmp_path / f"{kind}-v1.zip", files)
    gma_ok("data", kind, "--from", archive, "--out", out)
    assert contents(out) == {name.partition("/")[2]: text for name, text in files.items()}

    raw = wikitext_files("raw", f"{kind}-raw/")
    archive = make_zip(tmp_path / f"{kind}-raw-v1.zip", raw)
    gma_ok("data", kind, "--raw", "--from", archive, "--out", out)
    assert contents(out) == {
        name.partition("/")[2]: text for name, text in (files | raw).items()
    }
    message = refuses(kind, archive, tmp_path / "other" / "out")
    assert "expected a file wiki.train.tokens, got none" in message


def test_wikitext_is_not_taken_for_the_other(tmp_path: Path, out: Path) -> None:
    archive = make_zip(tmp_path / "a.zip", wikitext_files(root="wikitext-103/"))
    assert "expected a file wiki.train.tokens" in refuses("wikitext-2", archive, out)


def test_shared_wikitext(out: Path) -> None:
    source = SHARED / "wikitext"
    if not source.exists():
        pytest.skip("no shared data beside the project")

    def unpacked(name: str) -> bytes:
        return gzip.decompress((source / name).read_bytes())

    gma_ok("data", "wikitext-2", "--from", source, "--out", out)
    assert contents(out) == {
        f"wiki.{split}.tokens": unpacked(f"wt2.{split}.tokens.gz")
        for split in ("train", "valid", "test")
    }
    some = ("--splits", "test", "valid")
    message = gma_fails(2, "data", "wikitext-103", "--from", source, "--out", out / "103")
    assert "expected a file wiki.train.tokens, got none; --splits takes some of them" in message
    gma_ok("data", "wikitext-103", "--from", source, "--out", out / "103", *some)
    gma_ok("data", "wikitext-103", "--raw", "--from", source, "--out", out / "103", *some)
    assert (out / "103" / "wiki.test.tokens").read_bytes() == unpacked("wt103.test.tokens.gz")
    assert (out / "103" / "wiki.test.raw").read_bytes() == unpacked("wt_raw.test.raw.gz")


def test_lra_from_its_archive(tmp_path: Path, out: Path) -> None:
    files = {"lra_release/other/a.tsv": b"x"} | {
        f"lra_release/listops-1000/{name}": text for name, text in LISTOPS.items()
    }
    archive = make_tar(tmp_path / "lra_release.gz", files)
    text = gma_ok("data", "lra", "--from", archive, "--out", out)
    assert contents(out) == LISTOPS
    assert "basic_val.tsv: 1 expressions" in text


def test_lra_rows_are_checked(tmp_path: Path, out: Path) -> None:
    files = LISTOPS | {"basic_val.tsv": LISTOPS["basic_val.tsv"] + b"[MIN 1 2 ]\t2\r\n"}
    folder = write_tree(tmp_path / "in", files)
    message = refuses("lra", folder, out)
    assert f"{folder}: basic_val.tsv:3: the label is 2, the value 1" in message


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type = kind
    member.linkname = target
    return member


WIKI = "wikitext-2/wiki.train.tokens"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("../wiki.train.tokens", b"x", "'../wiki.train.tokens' would lead out of"),
        ("a/../../../wiki.train.tokens", b"x", "would lead out of the archive's folder"),
        ("a/..", b"x", "would lead out of"),
        ("/tmp/wiki.train.tokens", b"x", "would lead out of"),
        ("a\\..\\..\\wiki.train.tokens", b"x", "would lead out of"),
        (WIKI, special(WIKI, tarfile.SYMTYPE, "/etc/passwd"), f"'{WIKI}' is a link, not a file"),
        (WIKI, special(WIKI, tarfile.LNKTYPE, "../../x"), f"'{WIKI}' is a link, not a file"),
        (WIKI, special(WIKI, tarfile.FIFOTYPE), f"'{WIKI}' is something else, not a file"),
        (WIKI, special(WIKI, tarfile.CHRTYPE), f"'{WIKI}' is something else, not a file"),
        (WIKI, special(WIKI, tarfile.DIRTYPE), "expected a file wiki.train.tokens, got none"),
        (WIKI, b"", f"{WIKI}: the file is empty"),
        (WIKI, b"a\0b\n", f"{WIKI}: not a text file"),
    ],
)
def test_hostile_entries(
    name: str, content: bytes | tarfile.TarInfo, message: str, tmp_path: Path, out: Path
) -> None:
    files: dict = wikitext_files()
    del files[WIKI]
    (tmp_path / "in").mkdir()
    archive = make_tar(tmp_path / "in" / "a.tar.gz", {name: content} | files)
    assert message in refuses("wikitext-2", archive, out)
    if isinstance(content, bytes) and "\\" not in name:
        archive = make_zip(tmp_path / "in" / "a.zip", {name: content} | files)
        assert message in refuses("wikitext-2", archive, out)


def test_links_that_are_not_wanted_lead_nowhere(tmp_path: Path, out: Path) -> None:
    """A folder that is a link, and then a file in it: what unpacking would write outside."""
    target = tmp_path / "target"
    target.mkdir()
    files = {
        "wikitext-2": special("wikitext-2", tarfile.SYMTYPE, str(target)),
        **wikitext_files(),
    }
    gma_ok("data", "wikitext-2", "--from", make_tar(tmp_path / "a.tar", files), "--out", out)
    assert contents(target) == {}
    assert sorted(contents(out)) == ["wiki.test.tokens", "wiki.train.tokens", "wiki.valid.tokens"]
    assert not any(path.is_symlink() for path in out.iterdir())


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_what_comes_twice(tmp_path: Path, out: Path) -> None:
    files = wikitext_files()
    (tmp_path / "in").mkdir()
    with zipfile.ZipFile(tmp_path / "in" / "a.zip", "w") as archive:
        for name, text in [*files.items(), *files.items()]:
            archive.writestr(name, text)
    assert "it comes twice" in refuses("wikitext-2", tmp_path / "in" / "a.zip", out)
    files |= {"old/wiki.train.tokens": b"x\n"}
    archive = make_tar(tmp_path / "in" / "a.tar", files)
    assert "a second file for wiki.train.tokens" in refuses("wikitext-2", archive, out)


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]


def damaged(data: bytes) -> Iterable[bytes]:
    """Cut short, or with a byte changed, at many places."""
    for at in range(0, len(data), max(1, len(data) // 8)):
        yield data[:at]
        yield flipped(data, at)
    yield data[:-1]


def test_damaged_archives_never_make_other_files(tmp_path: Path) -> None:
    noise = bytes(97 + i * i * i % 26 for i in range(40000))
    files = {name: text + noise + b"\n" for name, text in wikitext_files().items()}
    whole = {name.partition("/")[2]: text for name, text in files.items()}
    for make in (make_zip, make_tar):
        original = make(tmp_path / "original", files).read_bytes()
        refused = 0
        for number, data in enumerate(damaged(original)):
            archive = tmp_path / "damaged"
            archive.write_bytes(data)
            out = tmp_path / f"{make.__name__}-{number}"
            result = gma("data", "wikitext-2", "--from", archive, "--out", out)
            if result.returncode == 0:  # such as a date in a header
                assert contents(out) == whole
                continue
            refused += 1
            assert result.returncode == 2, result.stderr
            assert result.stderr.startswith(f"gma: error: {archive}: ")
            assert result.stderr.count("\n") == 1
            assert not out.exists()
        assert refused >= 12


def test_why_an_archive_is_refused(tmp_path: Path, out: Path) -> None:
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "a"
    tar = make_tar(path, imdb_files()).read_bytes()
    path.write_bytes(tar[: len(tar) // 2])
    assert "a: truncated gzip file" in refuses("imdb", path, out)
    path.write_bytes(flipped(tar, len(tar) - 6))
    assert "a: damaged gzip file" in refuses("imdb", path, out), "of the checksum"
    # Padding after the end of the archive, which nobody needs to read but for the checksum.
    padded = gzip.compress(make_tar(path, imdb_files(), "w").read_bytes() + bytes(1 << 20))
    path.write_bytes(flipped(padded, len(padded) - 6))
    assert "a: damaged gzip file" in refuses("imdb", path, out)
    path.write_bytes(gzip.compress(b"no archive\n" * 99))
    assert "a: not a whole archive, tar or zip" in refuses("imdb", path, out)
    zipped = make_zip(path, wikitext_files()).read_bytes()
    path.write_bytes(zipped[:-30])
    assert "a: damaged or truncated zip file" in refuses("wikitext-2", path, out)
    path.write_bytes(b"")
    assert "a: " in refuses("imdb", path, out)
    missing = tmp_path / "in" / "none"
    assert f"{missing}: no such file or folder" in refuses("imdb", missing, out)


def test_bombs(tmp_path: Path, out: Path) -> None:
    """Zeros pack a thousandfold: what is asked for, and what is passed over."""
    (tmp_path / "in").mkdir()
    block = bytes(1 << 20)

    def bomb(name: str, megabytes: int) -> Path:
        path = tmp_path / "in" / "bomb.tar.gz"
        member = tarfile.TarInfo(name)
        member.size = megabytes << 20
        with gzip.open(path, "wb", compresslevel=1) as file:
            file.write(member.tobuf())
            for _ in range(megabytes):
                file.write(block)
        return path

    message = refuses("imdb", bomb("aclImdb/train/pos/0_9.txt", 110), out)
    assert "0_9.txt: it unpacks to more than 0.1 GB, which no copy of this data does" in message
    message = refuses("imdb", bomb("aclImdb/train/unsup.bin", 2000), out)
    assert "bomb.tar.gz: it unpacks to more than 2 GB" in message


def test_files_that_are_there_stay(tmp_path: Path, out: Path) -> None:
    archive = make_zip(tmp_path / "a.zip", wikitext_files())
    out.mkdir(parents=True)
    (out / "wiki.test.tokens").write_text("mine")
    args = ("data", "wikitext-2", "--from", archive, "--out", out)
    message = gma_fails(2, *args)
    assert "the folder holds wiki.test.tokens already; --overwrite replaces it" in message
    assert contents(out) == {"wiki.test.tokens": b"mine"}
    gma_ok(*args, "--overwrite")
    assert (out / "wiki.test.tokens").read_bytes() == b" \n = test = \n \n a <unk> b \n"

    # A source that fails at its last file changes none.
    bad = make_zip(tmp_path / "b.zip", wikitext_files() | {"wikitext-2/wiki.test.tokens": b""})
    before = contents(out)
    gma_fails(2, "data", "wikitext-2", "--from", bad, "--out", out, "--overwrite")
    assert contents(out) == before


def test_full_disk(tmp_path: Path, out: Path) -> None:
    archive = make_zip(tmp_path / "a.zip", wikitext_files())
    message = gma_fails(
        1,
        *("data", "wikitext-2", "--from", archive, "--out", out),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8, 8)),
    )
    assert "wiki.train.tokens: cannot write: " in message
    assert not out.exists()


def test_listops(tmp_path: Path, out: Path) -> None:
    size = ("--train=60", "--val=20", "--test=20")
    text = gma_ok("data", "listops", "--out", out, *size)
    assert f"{out}/basic_train.tsv: 60 expressions" in text
    assert "% by the root operator and the digits directly under it" in text
    again = tmp_path / "again"
    gma_ok("data", "lra", "--from", out, "--out", again)
    assert contents(again) == contents(out), "what is made is what is read"
    assert "--overwrite replaces it" in gma_fails(2, "data", "listops", "--out", out, *size)
    gma_ok("data", "listops", "--out", out, *size, "--overwrite", "--seed=1")
    assert contents(again) != contents(out)


def test_interrupted_listops(out: Path) -> None:
    process = subprocess.Popen(
        command("data", "listops", "--out", out, "--train=100000000"),
        stdout=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not (out / ".basic_train.tsv.tmp").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert text == "Stopped; nothing is written.\n"
    assert not out.exists()


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/none")):
        message = gma_fails(2, "data", "listops", "--out", place)
        assert message.startswith(f"--out {place}: ")
    if os.geteuid() != 0:
        (tmp_path / "closed").mkdir(mode=0o500)
        assert "--out" in gma_fails(2, "data", "listops", "--out", tmp_path / "closed")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "data: expected listops, imdb, wikitext-2, wikitext-103 or lra"),
        (("mnist",), "mnist"),
        (("listops", "--train=0"), "--train: expected at least 1"),
        (("listops", "--seed=-1"), "--seed: expected at least 0"),
        (("listops", "--max-args=1"), "--max-args: expected at least 2"),
        (("listops", "--min-length=1999"), "--max-length 2000: expected 2001 to 1048576"),
        (("listops", "--max-depth=1", "--min-length=0"), "no further expression in 10000000 trees"),
        (("imdb", "--splits", "valid"), "--splits"),
        (("imdb", "--raw"), "--raw"),
        (("imdb", "--from", "a", "--url", "http://b/c"), "--from excludes --url"),
        (("imdb", "--url", "ftp://a/b.zip"), "--url ftp://a/b.zip: expected http:// or https://"),
        (("imdb", "--url", "file:///etc/passwd"), "expected http:// or https://"),
        (("imdb", "--url", "http://localhost/"), "expected the address of a file"),
        (("imdb", "--url", "http://localhost/a/%2e%2e"), "expected the address of a file"),
        (("imdb", "--url", "http://localhost/train.tsv"), "expected an archive"),
        (("imdb", "--from", "/tmp", "--sha256", "12"), "--sha256: expected 64 hexadecimal digits"),
        (("imdb", "--from", "/tmp", "--sha256", "a" * 64), "--from /tmp is a folder"),
        (("imdb", "--from", "/none/such"), "/none/such: no such file or folder"),
    ],
)
def test_wrong_usage(args: tuple[str, ...], message: str, tmp_path: Path) -> None:
    assert message in gma_fails(2, "data", *args, cwd=tmp_path)
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


def test_help() -> None:
    assert "listops" in gma_ok("data", "--help")
    for kind in ("imdb", "wikitext-2", "wikitext-103", "lra"):
        text = gma_ok("data", kind, "--help")
        for option in ("--out", "--from", "--url", "--sha256", "--splits", "Example: gma data"):
            assert option in text
        assert ("--raw" in text) == kind.startswith("wikitext")
