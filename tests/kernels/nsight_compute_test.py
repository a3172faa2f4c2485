"""What Nsight Compute should report: its metrics' names, what is expected of them, and a report held against that.

usage: nsight_compute_test.py --build BUILD
"""

import contextlib
import io
import tempfile
import unittest

import model_tests
import cupti_metrics
import kernel_time
import nsight_compute
import nsight_sheet
from nsight_metrics import METRICS, RULES

FIXED = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size", "Device", "CC"]
SYMBOL = "_ZN7tenfold7kernels9copy_rowsEPfPKfl"


def quoted(cells):
    return ",".join(f'"{cell}"' for cell in cells) + "\n"


def report(launches, units=None, head="==PROF== Connected to process 1234 (copy_bench)\n"):
    """As ncu --csv --page raw --print-units base prints it: [(kernel, {metric: text})]. A line of names, one of units, one of each launch."""
    names = sorted({name for _, values in launches for name in values})
    text = head + quoted([*FIXED, *names]) + quoted([*[""] * len(FIXED), *[(units or {}).get(name, "") for name in names]])
    for i, (kernel, values) in enumerate(launches):
        text += quoted([i, 1234, "copy_bench", "127.0.0.1", kernel, 1, 7, "(256, 1, 1)", "(64, 1, 1)", 0, "9.0", *[values.get(name, "") for name in names]])
    return text + "==PROF== Disconnected from process 1234\n"


SHEET = {"gpu": "H100", "kernels": [{"operation": "copy", "type": "float", "shape": "count=8", "rungs": [{"name": "plain", "launches": [
    {"symbol": SYMBOL, "values": {"gpu__time_duration.sum": 1000, "launch__grid_size": 64, "smsp__inst_executed.sum": 4096,
                                  "dram__bytes_read.sum": 2e6, "dram__throughput.avg.pct_of_peak_sustained_elapsed": 5e-7}}]}]}]}


class Names(unittest.TestCase):
    def setUp(self):
        self.cupti = cupti_metrics.library()
        if self.cupti is None:
            self.skipTest("CUPTI is not installed: LibTorch is one without CUDA")

    def test_nvidia_knows_every_name(self):
        """On each chip; cp.async is not on 7.5, and launch__ is Nsight Compute's own."""
        for capability, chip in cupti_metrics.CHIPS.items():
            known = cupti_metrics.metrics_of(self.cupti, chip)
            for metric in METRICS:
                if metric.name.startswith("launch__") or capability == "7.5" and "ldgsts" in metric.name:
                    continue
                self.assertIn(metric.base, known, chip)

    def test_a_name_that_is_none_would_be_noticed(self):
        known = cupti_metrics.metrics_of(self.cupti, "GH100")
        self.assertNotIn("l1tex__t_sectors_pipe_lsu_mem_global_op_load", known)
        self.assertIn("global loads", known["l1tex__t_sectors_pipe_lsu_mem_global_op_ld"])
        self.assertRaises(RuntimeError, cupti_metrics.metrics_of, self.cupti, "GX100")

    def test_each_metric_once_and_by_a_rule(self):
        self.assertEqual(len({metric.name for metric in METRICS}), len(METRICS))
        self.assertLessEqual({metric.rule for metric in METRICS}, RULES.keys())


class Report(unittest.TestCase):
    def read(self, text):
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
            file.write(text)
            file.flush()
            return nsight_compute.report_of(file.name)

    def compared(self, launches):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            result = nsight_compute.print_comparison(SHEET, self.read(report(launches)))
        return result, out.getvalue()

    def test_launches_of_the_same_grid_are_averaged(self):
        rows = [(SYMBOL, {"launch__grid_size": "64", "smsp__inst_executed.sum": "4,000"}), (SYMBOL, {"launch__grid_size": "64", "smsp__inst_executed.sum": "4,400"}),
                (SYMBOL, {"launch__grid_size": "9", "smsp__inst_executed.sum": "1"}), (SYMBOL, {"launch__grid_size": "64", "smsp__inst_executed.sum": "n/a"})]
        self.assertEqual(nsight_compute.mean_of(self.read(report(rows))[SYMBOL]["smsp__inst_executed.sum"], 64), 4200)

    def test_cell_by_cell(self):
        good = {"gpu__time_duration.sum": "1,250", "launch__grid_size": "64", "smsp__inst_executed.sum": "4,100", "dram__bytes_read.sum": "2,100,000",
                "dram__throughput.avg.pct_of_peak_sustained_elapsed": "41.0"}
        (shown, wrong), text = self.compared([(SYMBOL, good), ("ampere_sgemm", good)])
        self.assertEqual((shown, wrong), (5, 0), text)
        self.assertRegex(text, r"dram__bytes_read.sum +2e\+06 +2.1e\+06 +1.05")
        self.assertRegex(text, r"dram__throughput\S+ +40 +41 ", "of the measured 1.25 us, DRAM's bound takes 0.5")
        (shown, wrong), text = self.compared([(SYMBOL, good | {"dram__bytes_read.sum": "2,300,000", "gpu__time_duration.sum": "900"})])
        self.assertEqual((shown, wrong), (5, 3), text)
        self.assertRegex(text, r"dram__bytes_read.sum .* 1.15 +should be within 10 %")
        self.assertRegex(text, r"gpu__time_duration.sum .* 0.9 +should be at least ours")

    def refusal(self, text):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as ended:
            self.read(text)
        self.assertEqual((ended.exception.code, said.getvalue().count("\n")), (2, 1))
        return said.getvalue()

    def test_what_it_cannot_read(self):
        values = {"gpu__time_duration.sum": "1"}
        self.assertIn("--page raw", self.refusal("==ERROR== No kernels were profiled.\n"))
        self.assertIn("--page raw", self.refusal(quoted([*FIXED, "Section Name", "Metric Name", "Metric Unit", "Metric Value"])))
        self.assertIn("--print-kernel-base mangled", self.refusal(report([("copy_rows(float *, const float *, long)", values)])))
        self.assertIn("--print-units base", self.refusal(report([(SYMBOL, values)], {"gpu__time_duration.sum": "us"})))

    def test_the_committed_sheet_agrees_with_a_report_of_itself(self):
        """It shows that every kernel of the sheet is found again in a report, and every metric compared."""
        sheet, launches, numbers = nsight_compute.sheet_of(), {}, 0
        for entry in sheet["kernels"]:
            for rung in entry["rungs"]:
                for launch in rung["launches"]:
                    values, duration = launch["values"], launch["values"]["gpu__time_duration.sum"]
                    shares = {metric.name: 100 * values[metric.name] / (duration * 1e-9) for metric in METRICS if metric.of_time and metric.name in values}
                    launches[launch["symbol"], values["launch__grid_size"]] = {name: f"{value:.9g}" for name, value in (values | shares).items()}
        text = report([(symbol, values) for (symbol, _), values in launches.items()])
        with contextlib.redirect_stdout(io.StringIO()):
            shown, wrong = nsight_compute.print_comparison(sheet, self.read(text))
        self.assertGreater(shown, 2000)
        self.assertLess(wrong, shown / 100, "the same kernel in two rungs at two shapes")


class Sheet(unittest.TestCase):
    """Every number that is committed, held against counts by hand and against today's model."""

    @classmethod
    def setUpClass(cls):
        cls.sheet = nsight_compute.sheet_of()
        cls.entries = {entry["operation"]: entry for entry in cls.sheet["kernels"]}

    def values(self, operation, rung, which=-1):
        return self.entries[operation]["rungs"][rung]["launches"][which]["values"]

    def test_the_arithmetic_of_matmuls(self):
        product = 4096 ** 3
        for rung in range(8):
            ffma = self.values("sgemm", rung)["smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"]
            self.assertAlmostEqual(ffma / product, 1, delta=0.01, msg=f"sgemm {rung}")
        for rung in (1, 2, 3, 4):  # an m16n8k16 has 2,048 multiply-adds
            self.assertAlmostEqual(self.values("hgemm", rung)["sm__inst_executed_pipe_tensor_op_hmma.sum"] / (product / 2048), 1, delta=0.01, msg=f"hgemm {rung}")

    def test_the_memory_of_the_transpose(self):
        requests, ld, st = 8192 * 8192 / 32, "average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio", "average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio"
        conflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"
        self.assertEqual([(self.values("transpose", rung)[f"l1tex__{ld}"], self.values("transpose", rung)[f"l1tex__{st}"]) for rung in range(4)],
                         [(4, 32), (32, 4), (4, 4), (4, 4)])
        self.assertEqual([self.values("transpose", rung)[conflicts] for rung in (2, 3)], [31 * requests, 0], "32 words of one bank; padded")
        for rung in range(5):
            self.assertAlmostEqual(self.values("transpose", rung)["dram__bytes_read.sum"], 4 * 8192 * 8192, delta=4096)

    def test_source_and_machine_code_count_the_same_requests(self):
        """Both have the same bytes, which the linear programme is told; so nvcc's loads are as wide as the source's."""
        for operation, rung in (("transpose", 0), ("transpose", 4), ("reduction", 0), ("softmax", 4), ("sgemm", 7), ("layer_norm", 4)):
            values = self.values(operation, rung)
            self.assertAlmostEqual(values["smsp__sass_inst_executed_op_global_ld.sum"] / values["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"], 1, delta=0.02,
                                   msg=f"{operation} {rung}")

    def test_it_describes_today_s_metrics(self):
        fields = ("name", "ours", "section", "rule", "why")
        self.assertEqual([tuple(row[field] for field in fields) for row in self.sheet["metrics"]],
                         [tuple(getattr(metric, field) for field in fields) for metric in METRICS], "kernels/model/nsight_sheet.py writes them")

    def test_it_is_of_every_rung_at_the_shape_of_its_case(self):
        tools = model_tests.tools()
        self.assertEqual({name: (entry["shape"], entry["type"], tuple(rung["name"] for rung in entry["rungs"])) for name, entry in self.entries.items()},
                         {name: (operation.shape, operation.type, operation.rungs) for name, operation in tools.operations.items()})

    def test_what_is_committed_is_what_the_model_says(self):
        tools = model_tests.tools()
        gpu = tools.gpus[self.sheet["gpu"]]
        if tools.nvcc != self.sheet["nvcc"]:
            self.skipTest(f"built with nvcc {tools.nvcc or 'of no version'}, what is committed with {self.sheet['nvcc']}")
        try:
            tools.machine_code("softmax", gpu["capability"])
        except kernel_time.MissingCode as error:
            self.skipTest(str(error))
        changed = "the model or the kernel has changed: kernels/model/nsight_sheet.py"
        for name, rung in (("hgemm", 4), ("reduction", 5), ("sgemm", 7), ("transpose", 2)):
            with contextlib.redirect_stdout(io.StringIO()):
                launches = nsight_sheet.expected(tools, gpu, tools.operation(name), rung)
            for found, wanted in zip(launches, self.entries[name]["rungs"][rung]["launches"], strict=True):
                self.assertEqual(found["symbol"], wanted["symbol"], changed)
                self.assertEqual(found["values"].keys(), wanted["values"].keys(), changed)
                for metric, value in wanted["values"].items():
                    self.assertAlmostEqual(found["values"][metric], value, delta=0.01 * abs(value), msg=f"{name} {rung} {metric}: {changed}")


if __name__ == "__main__":
    model_tests.run()
