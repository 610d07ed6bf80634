"""How far around a source ktc looks: within its repository or what is built together, never through links or /tmp."""

from __future__ import annotations

from ktc.project.project_roots import is_within, project_root


def _file(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    return str(path)


def test_a_repository_is_the_project(tmp_path):
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    _file(tmp_path / "repo" / "app" / "Makefile")
    assert project_root(_file(tmp_path / "repo" / "app" / "src" / "k.cu")) == str(tmp_path / "repo")


def test_an_unpacked_archive_of_a_repository_is_the_project(tmp_path):
    (tmp_path / "x-main" / ".github").mkdir(parents=True)
    _file(tmp_path / "x-main" / "src" / "app" / "Makefile")
    assert project_root(_file(tmp_path / "x-main" / "src" / "app" / "k.cu")) == str(tmp_path / "x-main")


def test_without_a_repository_it_is_the_highest_of_the_folders_that_are_built_together(tmp_path):
    for folder in ("", "all", "all/app"):
        _file(tmp_path / "x" / folder / "CMakeLists.txt")
    source = _file(tmp_path / "x" / "all" / "app" / "src" / "k.cu")
    assert project_root(source) == str(tmp_path / "x")
    (tmp_path / "x" / "all" / "CMakeLists.txt").unlink()
    assert project_root(source) == str(tmp_path / "x" / "all" / "app")


def test_a_folder_that_nothing_marks_is_no_project(tmp_path):
    assert project_root(_file(tmp_path / "k.cu")) == ""
    assert not is_within("", str(tmp_path / "k.cu"))


def test_a_home_folder_is_no_project(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / ".git").mkdir()
    assert project_root(_file(tmp_path / "src" / "k.cu")) == ""


def test_what_everybody_may_write_to_is_no_project(tmp_path):
    _file(tmp_path / "Makefile")
    source = _file(tmp_path / "own" / "k.cu")
    assert project_root(source) == str(tmp_path)
    tmp_path.chmod(0o1777)
    assert project_root(source) == ""


def test_a_link_leads_out_of_a_project(tmp_path):
    root = tmp_path / "own"
    outside = _file(tmp_path / "other" / "secret.h")
    inside = _file(root / "own.h")
    (root / "linked.h").symlink_to(outside)
    assert is_within(str(root), inside)
    assert not is_within(str(root), str(root / "linked.h"))
    assert not is_within(str(root), str(root / ".." / "other" / "secret.h"))
