"""Tests finding plugins and refusing files that are not plugins."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler_plugin.commands import list_plugins
from compiler_plugin.registry import choose_soc_model, find_plugins, load_plugin
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.host.stock_vendors import stock_vendor_folder

PLUGIN = """
from compiler_plugin.plugin import *
class Factory(CompilerPluginFactory):
    soc_manufacturer = "{name}"
    soc_models = ("M1", "M2")
    def create(self, environment_options, compiler_options):
        return None
{more}
PLUGIN = Factory()
"""


def write(folder: Path, name: str = "Acme", more: str = "", file: str = "Acme") -> list[str]:
    text = PLUGIN.format(name=name, more="".join(f"    {line}\n" for line in more.splitlines()))
    (folder / f"LiteRtCompilerPlugin{file}.py").write_text(text)
    return [str(folder)]


def test_a_plugin_is_found_in_a_folder(tmp_path: Path) -> None:
    plugin = load_plugin("Acme", write(tmp_path))
    assert plugin.factory.soc_manufacturer == "Acme"
    assert plugin.origin == str(tmp_path / "LiteRtCompilerPluginAcme.py")


def test_an_installed_plugin_is_found_by_its_entry_point() -> None:
    assert load_plugin("Null", []).origin.startswith("entry point 'Null' of litert-npu-null")


@pytest.mark.parametrize("name", ["AcmeNPU", "acme_npu", "ACME-npu"])
def test_a_vendor_has_its_plugin_by_any_of_its_names(tmp_path: Path, name: str) -> None:
    plugin = load_plugin(name, write(tmp_path, "AcmeNPU"))
    assert plugin.factory.soc_manufacturer == "AcmeNPU"
    assert load_plugin("null", []).factory.soc_manufacturer == "Null"


def test_exactly_a_plugins_name_goes_before_one_in_another_case(tmp_path: Path) -> None:
    write(tmp_path, "ACME", file="1")
    libs = write(tmp_path, "Acme", file="2")
    assert load_plugin("Acme", libs).factory.soc_manufacturer == "Acme"
    with pytest.raises(LiteRtError, match=r"Plugin1.py .*Plugin2.py.* exact spelling") as error:
        load_plugin("acme", libs)
    assert error.value.status is Status.ALREADY_EXISTS


def test_vendors_of_stock_s_wheel_have_all_names_that_are_printed(stock_vendors: Path) -> None:
    """The test covers the vendors whose libraries load on this machine."""
    for folder in sorted(stock_vendors.iterdir()):
        for plugin in find_plugins([str(folder)]).plugins:
            manufacturer = plugin.factory.soc_manufacturer
            assert Path(stock_vendor_folder(manufacturer, "compiler")).parent == folder
            for name in (manufacturer, folder.name):
                assert load_plugin(name, []).factory.soc_manufacturer == manufacturer


def test_a_vendor_that_is_not_there_is_answered_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(LiteRtError) as error:
        load_plugin("Nobody", write(tmp_path))
    assert error.value.status is Status.NOT_FOUND
    for name in ("Nobody", "Acme", "Null", "Reference", "intel_openvino", "--libs"):
        assert name in str(error.value)


def test_a_folder_without_plugins_is_warned_of(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "plugin.py").write_text(PLUGIN)
    (tmp_path / "full").mkdir()
    libs = [str(tmp_path / "empty"), *write(tmp_path / "full")]
    sentence = (
        "no file in this folder or its subfolders has the name of a compiler plugin, "
        "LiteRtCompilerPlugin*.py or libLiteRtCompilerPlugin*.so"
    )
    for vendor in ("Acme", "Null"):
        assert load_plugin(vendor, libs).warnings == [f"{libs[0]}: {sentence}"]
    with pytest.raises(LiteRtError) as error:
        load_plugin("Nobody", libs)
    assert f"{libs[0]} cannot be used: {sentence}. " in error.value.hint
    assert load_plugin("Acme", libs[1:]).warnings == []


def test_a_broken_module_is_told_of_when_its_vendor_is_missed(tmp_path: Path) -> None:
    (tmp_path / "LiteRtCompilerPluginBroken.py").write_text("import no_such_driver")
    libs = write(tmp_path)
    assert load_plugin("Acme", libs).factory.soc_manufacturer == "Acme"
    with pytest.raises(LiteRtError, match="No module named 'no_such_driver'") as error:
        load_plugin("Missed", libs)
    assert error.value.status is Status.NOT_FOUND and ".." not in str(error.value)


@pytest.mark.parametrize("name", ["LiteRtCompilerPluginBroken", "LiteRtCompilerPlugin_broken"])
def test_a_broken_module_of_the_vendors_name_is_the_error(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.py").write_text("import no_such_driver")
    with pytest.raises(LiteRtError) as error:
        load_plugin("Broken", write(tmp_path))
    assert str(error.value).startswith(
        "DYNAMIC_LOADING: cannot import the Python module: ModuleNotFoundError"
    )


def test_an_installed_plugin_that_does_not_load_is_listed_with_its_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[litert_npu.compiler_plugin]\nBroken = no_such_driver:PLUGIN\n"
        "Liar = litert_npu_null.compiler_plugin:PLUGIN\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    problems = {info.soc_manufacturer: info.problem for info in list_plugins()}
    assert "No module named 'no_such_driver'" in problems["Broken"]
    assert (
        "the plugin's soc_manufacturer is 'Null', but the plugin's entry point has the name 'Liar'"
        in problems["Liar"]
    )
    assert not problems["Null"]


def test_two_plugins_of_one_manufacturer_are_refused(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(LiteRtError) as error:
        load_plugin("Acme", write(tmp_path, file="Other"))
    assert error.value.status is Status.ALREADY_EXISTS
    assert "PluginAcme.py" in str(error.value) and "PluginOther.py" in str(error.value)


def test_a_plugin_in_a_folder_goes_before_an_installed_one(tmp_path: Path) -> None:
    """A vendor can test an unreleased version beside its installed release."""
    libs = write(tmp_path, name="Null")
    assert load_plugin("Null", libs).origin.startswith(str(tmp_path))
    assert [i.origin for i in list_plugins(libs) if i.soc_manufacturer == "Null"] == [
        load_plugin("Null", libs).origin
    ]
    assert load_plugin("Null", []).origin.startswith("entry point")


def test_an_installed_plugin_does_not_stand_in_for_a_broken_one_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "LiteRtCompilerPlugin_Null.py").write_text("import no_such_module")
    with pytest.raises(LiteRtError, match="no_such_module"):
        load_plugin("Null", [str(tmp_path)])


@pytest.mark.parametrize(
    ("more", "status", "says"),
    [
        ("api_version = ApiVersion(0, 1, 7)", Status.WRONG_VERSION, "version 0.1.7"),
        ("api_version = '0.1.0'", Status.DYNAMIC_LOADING, "api_version is '0.1.0'"),
        ("soc_manufacturer = ''", Status.DYNAMIC_LOADING, "soc_manufacturer is ''"),
        ("soc_manufacturer = 7", Status.DYNAMIC_LOADING, "soc_manufacturer is 7"),
        ("soc_models = ()", Status.DYNAMIC_LOADING, "soc_models is ()"),
        ("soc_models = 'M1'", Status.DYNAMIC_LOADING, "soc_models is 'M1'"),
        ("soc_models = ('M1', None)", Status.DYNAMIC_LOADING, "soc_models is"),
        (
            "supported_hardware = Hardware.GPU",
            Status.UNSUPPORTED,
            "does not support NPUs: its supported_hardware is GPU",
        ),
        ("supported_hardware = None", Status.DYNAMIC_LOADING, "supported_hardware is None"),
        ("sdk_version = property(lambda self: 1 / 0)", Status.DYNAMIC_LOADING, "ZeroDivisionError"),
        ("sdk_version = 3", Status.DYNAMIC_LOADING, "sdk_version is 3"),
        ("x = 1\nPLUGIN = None", Status.NOT_FOUND, "Acme"),
    ],
)
def test_what_a_plugin_says_of_itself_is_checked(
    tmp_path: Path, more: str, status: Status, says: str
) -> None:
    libs = write(tmp_path, more=more)
    if status is Status.NOT_FOUND:
        assert load_plugin("Acme", libs)
        return
    (info,) = [info for info in list_plugins(libs) if info.problem]
    assert says in info.problem and status.name in info.problem
    with pytest.raises(LiteRtError) as error:
        load_plugin("Acme", libs)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("PLUGIN = 3", "PLUGIN has type int, which is not derived from CompilerPluginFactory"),
        (
            "from compiler_plugin.plugin import CompilerPluginFactory as PLUGIN",
            "PLUGIN is the class CompilerPluginFactory, not an instance of the class",
        ),
        ("", "the module does not define PLUGIN"),
    ],
)
def test_a_module_without_a_plugin_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "LiteRtCompilerPluginX.py").write_text(text)
    (info,) = [info for info in list_plugins([str(tmp_path)]) if info.problem]
    assert says in info.problem


def test_a_shared_library_that_is_none_is_listed_with_its_reason(tmp_path: Path) -> None:
    path = tmp_path / "libLiteRtCompilerPlugin_Native.so"
    path.touch()
    libs = write(tmp_path)
    (info,) = [info for info in list_plugins(libs) if info.problem]
    assert info.origin == str(path)
    assert load_plugin("Acme", libs)
    with pytest.raises(LiteRtError) as error:
        load_plugin("Native", libs)
    assert error.value.status is not Status.NOT_FOUND


def test_the_first_soc_model_is_the_default_and_others_are_checked(tmp_path: Path) -> None:
    plugin = load_plugin("Acme", write(tmp_path))
    assert choose_soc_model(plugin, "") == "M1"
    assert choose_soc_model(plugin, "M2") == "M2"
    with pytest.raises(LiteRtError, match="The SoC models are M1, M2"):
        choose_soc_model(plugin, "M3")


@pytest.mark.usefixtures("intel")
def test_a_vendor_of_stock_s_wheel_is_found_without_being_told_where() -> None:
    plugin = load_plugin("IntelOpenVINO", [])
    assert list(plugin.factory.soc_models) == ["PTL", "LNL"]
    assert "libLiteRtCompilerPlugin_IntelOpenvino.so" in plugin.origin
