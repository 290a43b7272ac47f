"""Checks all SoC models of a plugin, not only the SoC model for which the other checks compile."""

from __future__ import annotations

from litert.abi.definitions import ffi
from litert.conformance.checks import BrokenRuleError, Check, Rules, Stage, UnseenError
from litert.conformance.plugin_subject import PluginSubject


def _each(subject: PluginSubject) -> None:
    if subject.soc_model:
        raise UnseenError("--soc_model names one")
    _ = subject.taken  # raises if there is nothing to compile
    with subject.plugin() as plugin:
        names = plugin.soc_models()
    for name in names:
        try:
            _compile_for(subject, name)
        except BrokenRuleError as error:
            raise BrokenRuleError(f"SoC model {name.decode()}: {error}") from error


def _compile_for(subject: PluginSubject, name: bytes) -> None:
    """Compiles the ops that the plugin takes for an SoC model, because SoC models may support different ops."""
    soc_model = ffi.new("char[]", name)
    for model in subject.each_model():
        with subject.plugin() as plugin:
            partitions = plugin.plan(model, soc_model)
        if partitions:
            with subject.plugin() as plugin, plugin.compile(partitions, soc_model):
                pass


RULES = Rules(
    Stage.WORK,
    (
        Check(
            "soc_models.each",
            _each,
            needs=("create.ok", "create.again", "soc_models.names", "partition.ops", "compile.ok"),
        ),
    ),
)
