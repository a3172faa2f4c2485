"""The names of a GPU's metrics, as NVIDIA's own library lists them: CUPTI, which comes with LibTorch's CUDA packages. Needs no GPU.

The hardware's counters have the names that Nsight Compute prints (l1tex__, lts__, dram__, smsp__, sm__, gpu__), and so have those that count
by patching the code (smsp__sass_). Nsight Compute's own names (launch__) are not among them.
"""

import ctypes
import pathlib
import sysconfig

CHIPS = {"7.5": "TU104", "8.0": "GA100", "8.6": "GA102", "9.0": "GH100"}  # of a compute capability


def library():
    """CUPTI, or None where it is not installed."""
    folder = pathlib.Path(sysconfig.get_paths()["purelib"]) / "nvidia" / "cu13" / "lib"
    try:
        return ctypes.CDLL(str(folder / "libcupti.so.13"))
    except OSError:
        return None


def structure(*fields):
    """As cupti_profiler_host.h begins each of them."""
    return type("Parameters", (ctypes.Structure,), {"_fields_": [("size", ctypes.c_size_t), ("private", ctypes.c_void_p), *fields]})


Text = ctypes.c_char_p
Texts = ctypes.POINTER(Text)
Initialize = structure(("profiler", ctypes.c_int), ("chip", Text), ("image", ctypes.c_void_p), ("host", ctypes.c_void_p))
BaseMetrics = structure(("host", ctypes.c_void_p), ("kind", ctypes.c_int), ("names", Texts), ("number", ctypes.c_size_t))
Properties = structure(("host", ctypes.c_void_p), ("metric", Text), ("description", Text), ("hardware", Text), ("unit", Text), ("kind", ctypes.c_int))
NumberOfSass = structure(("chip", Text), ("number", ctypes.c_size_t))


class Sass(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint64), ("name", Text), ("description", Text)]


SassMetrics = structure(("chip", Text), ("number", ctypes.c_size_t), ("list", ctypes.POINTER(Sass)))


def size_of(parameters):
    """Up to the end of the last field, without what pads the structure."""
    last = type(parameters)._fields_[-1][0]
    field = getattr(type(parameters), last)
    return field.offset + field.size


def call(cupti, name, parameters):
    parameters.size = size_of(parameters)
    error = getattr(cupti, name)(ctypes.byref(parameters))
    if error != 0:
        raise RuntimeError(f"{name} fails with CUPTI's error {error}")
    return parameters


def metrics_of(cupti, chip):
    """{base name: what it counts} of a chip. Throws RuntimeError."""
    host = call(cupti, "cuptiProfilerHostInitialize", Initialize(chip=chip.encode())).host
    found = {}
    for kind in range(3):  # counters, ratios, throughputs
        base = call(cupti, "cuptiProfilerHostGetBaseMetrics", BaseMetrics(host=host, kind=kind))
        for name in base.names[:base.number]:
            described = call(cupti, "cuptiProfilerHostGetMetricProperties", Properties(host=host, metric=name))
            found[name.decode()] = (described.description or b"").decode()
    number = call(cupti, "cuptiSassMetricsGetNumOfMetrics", NumberOfSass(chip=chip.encode())).number
    rows = (Sass * number)()
    call(cupti, "cuptiSassMetricsGetMetrics", SassMetrics(chip=chip.encode(), number=number, list=rows))
    return found | {row.name.decode(): row.description.decode() for row in rows}
