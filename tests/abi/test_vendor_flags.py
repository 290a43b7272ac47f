from __future__ import annotations

import pytest

from litert.abi.vendor_flags import vendor_payloads
from litert.core.errors import LiteRtError
from litert.core.status import Status


@pytest.mark.parametrize(
    ("manufacturer", "flags", "payloads"),
    [
        ("IntelOpenVINO", {}, {}),
        (
            "IntelOpenVINO",
            {"intel_openvino_graph_backends": "cpu"},
            {"intel_openvino": b"graph.-1.graph_backend = 0\n"},
        ),
        (
            "IntelOpenVINO",
            {"intel_openvino_graph_backend": "0"},
            {"intel_openvino": b"graph.-1.graph_backend = 0\n"},
        ),
        (
            "IntelOpenVINO",
            {
                "intel_openvino_performance_mode": "throughput",
                "intel_openvino_graph_backends": "0:npu;2:gpu",
                "intel_openvino_configs_map": "A=b,C=d=e",
                "intel_openvino_graph_configs_map": "1:K=v",
            },
            {
                "intel_openvino": b"performance_mode = 1\n"
                b"graph.0.graph_backend = 2\ngraph.2.graph_backend = 1\n"
                b'configs_map.A = "b"\nconfigs_map.C = "d=e"\ngraph.1.configs_map.K = "v"\n'
            },
        ),
        (
            "Qualcomm",
            {"qualcomm_backend": "htp", "qualcomm_dump_tensor_ids": "1,2", "qualcomm_new": "7"},
            {"qualcomm": b'qnn_backend = 2\ndump_tensor_ids = ["1", "2"]\nnew = 7\n'},
        ),
        (
            "Google",
            {"google_tensor_sharding_intensity": "minimal", "google_tensor_extra_options": "a: b"},
            {"google_tensor": b'sharding_intensity = 0\nextra_options = "YTogYg=="\n'},
        ),
        (
            "google_tensor",
            {"google_sharding_intensity": "minimal"},
            {"google_tensor": b"sharding_intensity = 0\n"},
        ),
        (
            "IntelOpenVINO",
            {"IntelOpenVINO_graph_backends": "cpu"},
            {"intel_openvino": b"graph.-1.graph_backend = 0\n"},
        ),
        (
            "MediaTek",
            {"mediatek_optimization_hint": "deep_fusion"},
            {"mediatek": b"optimization_hint = 2\n"},
        ),
        ("Samsung", {"samsung_soc_model": "9965"}, {"samsung": b'samsung_soc_model = "9965"\n'}),
        (
            "AcmeNPU",
            {"acme_npu_level": "3", "acme_npu_fast": "true", "acme_npu_mode": "best of all"},
            {"acme_npu": b'level = 3\nfast = true\nmode = "best of all"\n'},
        ),
    ],
)
def test_flags_become_payloads(
    manufacturer: str, flags: dict[str, str], payloads: dict[str, bytes]
) -> None:
    assert vendor_payloads(manufacturer, flags) == payloads


@pytest.mark.parametrize(
    ("flag", "value", "says"),
    [
        ("intel_openvino_graph_backends", "tpu", "cpu, gpu, npu"),
        ("intel_openvino_graph_backends", "x:cpu", "graph is the index"),
        ("intel_openvino_configs_map", "A", "key=value"),
        ("intel_openvino_configs_map", "A=\"'", "text with single or double quotes, not both"),
        ("intel_openvino_performance_mode", "a\nb", "a single line of text"),
    ],
)
def test_a_value_that_a_flag_cannot_have_is_refused(flag: str, value: str, says: str) -> None:
    with pytest.raises(LiteRtError, match=says) as error:
        vendor_payloads("IntelOpenVINO", {flag: value})
    assert error.value.status is Status.INVALID_TOOL_CONFIG


def test_a_flag_that_intel_s_plugin_would_pass_over_is_refused() -> None:
    with pytest.raises(LiteRtError, match="mean '--intel_openvino_graph_backends'") as error:
        vendor_payloads("IntelOpenVINO", {"intel_openvino_graph_backens": "cpu"})
    assert error.value.status is Status.INVALID_TOOL_CONFIG
