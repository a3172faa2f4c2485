"""The operators of torch.ops.tenfold against PyTorch's own in float64: values, gradients, torch.compile, and what they refuse.

usage: values.py [cpu|cuda]"""

import torch
from samples import OPS, Samples, by_torch, device_of_call, end

device = device_of_call()


def leaves(arguments, dtype):
    """The arguments with tensors of numbers as new leaves of this type; the same memory order."""
    return [x.detach().to(dtype).clone().requires_grad_(x.requires_grad) if torch.is_tensor(x) and x.is_floating_point() else x
            for x in arguments]


def gradients(run, arguments):
    """The result, and the gradients of its product with fixed weights, which are not all alike."""
    out = run(*arguments)
    weights = torch.linspace(-1, 2, out.numel(), dtype=torch.float64).reshape(out.shape).to(out.device, out.dtype)
    inputs = [x for x in arguments if torch.is_tensor(x) and x.requires_grad]
    return [out, *torch.autograd.grad((out * weights).sum(), inputs)]


def check_close(what, ours, expected, dtype):
    """A few roundings of the largest value: the kernels sum in float."""
    assert len(ours) == len(expected)
    for index, (a, b) in enumerate(zip(ours, expected)):
        assert a.shape == b.shape, (what, index, a.shape, b.shape)
        bound = 16 * torch.finfo(dtype).eps * max(b.abs().max().item(), 1)
        error = (a.detach().double().cpu() - b.detach().cpu()).abs().max().item()
        assert error <= bound, (what, index, dtype, error, bound)  # NaN does not pass


def check_values():
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for name, arguments in Samples(device, dtype).differentiable():
            own = [x.detach().requires_grad_(x.requires_grad) if torch.is_tensor(x) else x for x in arguments]  # strides kept
            ours = gradients(getattr(OPS, name), own)
            exact = gradients(lambda *args, name=name: by_torch(name, *args),
                              [x.cpu() if torch.is_tensor(x) and not x.is_floating_point() else x
                               for x in leaves([x.cpu() if torch.is_tensor(x) else x for x in arguments], torch.float64)])
            check_close(name, ours, exact, dtype)


def check_compiled():
    """One graph, also with sizes that are symbols, with the operators in it and the gradients of eager mode."""
    graphs = []

    def backend(graph, inputs):
        from torch._dynamo.backends.common import aot_autograd
        from functorch.compile import make_boxed_func

        def keep(graph, _):
            graphs.append(graph)
            return make_boxed_func(graph.forward)
        return aot_autograd(fw_compiler=keep, bw_compiler=keep)(graph, inputs)

    def block(x, weight, bias, matrix):
        y = OPS.layer_norm(x, weight, bias)
        return OPS.softmax(OPS.bias_gelu(y @ matrix, bias) + x)

    samples = Samples(device)
    compiled = torch.compile(block, fullgraph=True, dynamic=True, backend=backend)
    for rows in (4, 6, 9):
        arguments = [samples.normal(rows, 8), samples.normal(8), samples.normal(8), samples.normal(8, 8)]
        eager, graph = gradients(block, arguments), gradients(compiled, arguments)
        assert all(torch.equal(a, b) for a, b in zip(eager, graph)), rows
    called = [str(node.target) for graph in graphs for node in graph.graph.nodes if node.op == "call_function"]
    assert len(graphs) == 2, len(graphs)  # forward and backward, of all sizes
    for name in ("layer_norm_forward", "layer_norm_backward", "bias_gelu", "bias_gelu_backward", "softmax", "softmax_backward"):
        assert f"tenfold.{name}.default" in called, (name, called)


def check_refused():
    normal = Samples(device).normal
    x, weight, table = normal(4, 8), normal(8), torch.ones(4, 4, device=device)
    ids = torch.zeros(4, dtype=torch.int64, device=device)
    refused = [
        (lambda: OPS.layer_norm(x.double(), weight.double(), weight.double()), "takes float, half and bfloat16, not Double"),
        (lambda: OPS.layer_norm(x, normal(7), weight), "weight must have shape (8); it has [7]"),
        (lambda: OPS.layer_norm(x, weight, weight.half()), "bias is Half on"),
        (lambda: OPS.rms_norm(x, normal(4, 2)), "weight must have shape (8)"),
        (lambda: OPS.softmax(normal(0, 8)), "must have a dimension and an element"),
        (lambda: OPS.softmax(torch.tensor(1.0, device=device).reshape(()).expand(())), "must have a dimension"),
        (lambda: OPS.bias_gelu(x, weight, "fast"), "approximate is 'fast'; it must be 'none' or 'tanh'"),
        (lambda: OPS.cross_entropy(x, ids[:3]), "the targets must have the logits' shape without their last dimension"),
        (lambda: OPS.cross_entropy(x, ids.int()), "they must be Long"),
        (lambda: OPS.embedding(weight, ids), "the weight must have shape (V, D)"),
        (lambda: OPS.rope(normal(2, 5, 1, 8), table, table), "must have shape (5 or more, 4); they have [4, 4]"),
        (lambda: OPS.flash_attention(*[normal(1, 1, 4, 40)] * 3), "head_dim is 40; it must be 32, 64 or 128"),
        (lambda: OPS.pack(normal(2, 3, 4), ids, 4), "must have shape (batch, length, ...)"),
        (lambda: OPS.unpack(normal(4, 2), ids[:1], 3), "must have shape (batch + 1)"),
        (lambda: OPS.softmax_backward(normal(4, 7), x), "the gradient must have shape [4, 8]; it has [4, 7]"),
        (lambda: OPS.layer_norm_backward(x, x, weight, weight, weight), "the mean must have shape [4]; it has [8]"),
    ]
    with torch.no_grad():
        refused.append((lambda: OPS.adamw_([x], [x], [x], [normal(8, 4)], 1), "gradient 0 has shape [8, 4]; its parameter has [4, 8]"))
        refused.append((lambda: OPS.adamw_([x.t()], [x], [x], [x], 1), "average 0 has shape"))
        for call, expected in refused:
            try:
                call()
            except RuntimeError as error:
                lines = str(error).splitlines()
                assert len(lines) == 1 and expected in lines[0], (expected, str(error))
            else:
                raise AssertionError(f"not refused: {expected}")


def check_once_differentiable():
    x = Samples(device).normal(4, 8)
    (first,) = torch.autograd.grad(OPS.softmax(x).square().sum(), x, create_graph=True)
    try:
        first.sum().backward()
    except RuntimeError as error:
        assert "tenfold::softmax_backward" in str(error), error
    else:
        raise AssertionError("a second derivative")


check_values()
check_compiled()
check_refused()
check_once_differentiable()
end()
