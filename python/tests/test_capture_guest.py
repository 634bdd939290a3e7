"""The guest's recipe and its requirements."""

import dataclasses
from pathlib import Path

import pytest

from halfwink.capture import MissingRequirementError, WrongUseError, guest, host, paths
from halfwink.capture.guest import Recipe

RECIPE = Recipe(("gcc",), ("usr/share/doc/*",), {"gcc": ("usr/lib/gcc*",)}, "true")


def test_paths_go_to_their_layers() -> None:
    assert RECIPE.layer_of("usr/bin/ls") == "base"
    assert RECIPE.layer_of("usr/lib/gcc/x86_64-linux-gnu/12/cc1") == "gcc"
    assert RECIPE.layer_of("usr/share/doc/gcc/README") is None


def test_the_key_depends_on_everything() -> None:
    changed = [
        dataclasses.replace(RECIPE, packages=("gzip",)),
        dataclasses.replace(RECIPE, leave_out=()),
        dataclasses.replace(RECIPE, layers={}),
        dataclasses.replace(RECIPE, prepare="false"),
    ]
    assert len({recipe.key for recipe in [RECIPE, *changed]}) == 5
    assert dataclasses.replace(RECIPE).key == RECIPE.key


def test_the_shipped_recipe() -> None:
    recipe = guest.recipe()
    assert {"nginx-light", "redis-server", "postgresql-15", "iproute2"} <= set(recipe.packages)
    assert recipe.layer_of("usr/sbin/nginx") == "base"
    assert recipe.layer_of("usr/lib/postgresql/15/bin/postgres") == "postgresql"
    assert recipe.layer_of("usr/lib/x86_64-linux-gnu/libc.so.6") == "base"
    assert recipe.layer_of("usr/share/man/man1/ls.1.gz") is None


def test_a_guest_is_found_only_when_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert guest.find(RECIPE) is None
    folder = paths.cache() / f"guest-{RECIPE.key}"
    folder.mkdir(parents=True)
    assert guest.find(RECIPE) is None
    (folder / "guest.json").write_text('{"kernel_release": "6.1", "packages": {"gcc": "12"}}')
    found = guest.find(RECIPE)
    assert found is not None
    assert found.packages == {"gcc": "12"}


def test_walk_is_sorted_and_parents_come_first(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b/x").touch()
    (tmp_path / "a").touch()
    (tmp_path / "c").symlink_to("b")
    assert [path for path, _ in guest.walk(tmp_path)] == ["a", "b", "c", "b/x"]


def test_the_mirror_is_the_machines_own(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = "bookworm-updates|main|http://a.example\nbookworm|main|http://b.example/debian\n"
    monkeypatch.setattr(host, "run", lambda *_, **__: listed)
    assert host.mirror() == "http://b.example/debian"
    monkeypatch.setattr(host, "run", lambda *_, **__: "trixie|main|http://b.example\n")
    with pytest.raises(MissingRequirementError, match="Debian 12"):
        host.mirror()


def test_missing_requirements_say_what_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(host, "qemu_version", lambda: ("7.2", (7, 2)))
    with pytest.raises(MissingRequirementError, match=r"found 7\.2; run: sudo "):
        host.ensure()
    monkeypatch.setattr(host, "is_debian_12", lambda: True)
    with pytest.raises(MissingRequirementError, match=r"needs root.*; run: sudo "):
        host.ensure_for_guest()


def test_qemu_that_is_there_asks_no_package_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "qemu_version", lambda: ("10.0", host.QEMU_NEEDED))
    monkeypatch.setattr(host, "_backports_known", lambda: pytest.fail("apt was asked"))
    found = host.requirements()[0]
    assert (found.name, found.present, found.fix) == ("qemu", True, "")


def test_root_works_for_the_user_who_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert f"XDG_CACHE_HOME={tmp_path} " in host.set_up_line()
    monkeypatch.setenv("SUDO_UID", "1234")
    monkeypatch.setenv("SUDO_GID", "1234")
    owners: list[tuple[str, int]] = []
    monkeypatch.setattr(paths.os, "geteuid", lambda: 0)
    monkeypatch.setattr(
        paths.os, "chown", lambda path, uid, _, **__: owners.append((path.name, uid))
    )
    paths.make_cache()
    assert ("capture", 1234) in owners
    assert ("halfwink", 1234) in owners


def test_failing_commands_give_their_last_line() -> None:
    with pytest.raises(MissingRequirementError, match="failed: second"):
        host.run(["sh", "-c", "echo first >&2; echo second >&2; exit 3"])
    with pytest.raises(MissingRequirementError, match="is missing"):
        host.run(["/nonexistent/program"])


def test_packages_of_the_users_own_make_another_guest() -> None:
    one, other = guest.recipe(packages=("python3", "perl")), guest.recipe(packages=("perl",))
    assert {"busybox-static", "iproute2", "python3", "perl"} == set(one.packages)
    assert one.key == guest.recipe(packages=("perl", "python3", "perl")).key
    assert len({one.key, other.key, guest.recipe().key}) == 3
    assert one.layers == {}
    for wrong in ("Python", "a", "-x", "a;b", "a/b", "a=1"):
        with pytest.raises(WrongUseError, match="Debian package"):
            guest.recipe(packages=(wrong,))
