"""A file is there whole, or as it was."""

import os
import signal
import stat

import pytest

from fastccpd.model.files import check_apart, replacing, write_whole


def contents(folder):
    """Every file of a folder, hidden ones too, with its bytes."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("content", "expected"), [(b"\x00\xff\r\n", b"\x00\xff\r\n"), ("80×84\r\n\n", b"80\xc3\x9784\r\n\n"), ("", b"")]
)
def test_bytes_and_text_are_written_as_they_are(content, expected, tmp_path):
    write_whole(tmp_path / "new.md", content)
    write_whole(str(tmp_path / "text.md"), content, overwrite=False)
    assert contents(tmp_path) == {"new.md": expected, "text.md": expected}


def test_what_exists_is_replaced_unless_that_is_refused(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b"a much longer old text")
    with pytest.raises(FileExistsError, match=f"^{path}: exists already; it is overwritten only on request"):
        write_whole(path, "new", overwrite=False)
    assert contents(tmp_path) == {"rows.csv": b"a much longer old text"}
    write_whole(path, "new")
    assert contents(tmp_path) == {"rows.csv": b"new"}


def test_permissions_and_links_stay(tmp_path):
    path, link = tmp_path / "rows.csv", tmp_path / "link.csv"
    path.write_bytes(b"old")
    path.chmod(0o604)
    link.symlink_to(path)
    write_whole(link, "new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o604


def test_a_new_file_has_the_permissions_of_any(tmp_path):
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "rows.csv", "new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "rows.csv").stat().st_mode) == 0o640


@pytest.mark.parametrize(
    ("name", "content", "kind", "message"),
    [
        ("nowhere/rows.csv", "new", FileNotFoundError, "rows.csv: cannot be written, for there is no folder .*nowhere"),
        ("folder", "new", OSError, "folder: exists and is not a regular file$"),
        ("rows.csv", "\udcff", ValueError, r"rows.csv: cannot be written \('utf-8' codec can't encode"),
    ],
)
def test_what_cannot_be_written_gets_its_sentence_and_leaves_nothing(name, content, kind, message, tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(kind, match=message):
        write_whole(tmp_path / name, content)
    assert os.listdir(tmp_path) == ["folder"]


def test_an_interruption_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "scene.npy"
    target.write_bytes(b"old")

    def half_done():
        with replacing([target], overwrite=True) as [temporary]:
            temporary.write_bytes(b"half of the n")
            assert temporary.parent == tmp_path
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        half_done()
    assert contents(tmp_path) == {"scene.npy": b"old"}


def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path):
    target = tmp_path / "scene.npy"

    def overtaken():
        with replacing([target], overwrite=False) as [temporary]:
            temporary.write_bytes(b"mine")
            target.write_bytes(b"theirs")

    with pytest.raises(FileExistsError, match="scene.npy: exists already"):
        overtaken()
    assert contents(tmp_path) == {"scene.npy": b"theirs"}


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_an_output_that_is_an_input_by_a_link_is_refused(link, tmp_path):
    (tmp_path / "in").write_text("mine")
    link(tmp_path / "in", tmp_path / "out")
    with pytest.raises(ValueError, match="-o: .*out is one of the inputs, which are never overwritten"):
        check_apart([("-o", tmp_path / "out", [tmp_path / "out"])], [tmp_path / "in"])
    check_apart([("-o", tmp_path / "new", [tmp_path / "new"])], [tmp_path / "in"])


@pytest.mark.parametrize("second", ["a.npz", "A.NPZ", "there/../a.npz", "link.npz", "café.npz"])
def test_outputs_that_do_not_exist_yet_are_one_file_under_any_name(second, tmp_path):
    (tmp_path / "there").mkdir()
    os.symlink(tmp_path / "a.npz", tmp_path / "link.npz")
    first = "cafe\u0301.npz" if second == "café.npz" else "a.npz"
    outputs = [(name, file, [tmp_path / file]) for name, file in (("-o", first), ("--report", second))]
    with pytest.raises(ValueError, match=f"--report: {second} is the output too; another file is needed"):
        check_apart(outputs, [])


def test_a_folder_under_two_names_is_one_folder(tmp_path):
    (tmp_path / "there").mkdir()
    os.symlink(tmp_path / "there", tmp_path / "link")
    with pytest.raises(ValueError, match="is one of the inputs"):
        check_apart([("-o", "x", [tmp_path / "link" / "x"])], [tmp_path / "there" / "X"])
