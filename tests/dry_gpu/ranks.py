"""LibTorch's own NCCL process group on three cards that are not there: collectives, DistributedDataParallel and FSDP2 against
one process on the CPU, how long collectives last by the model, and what is said of ranks that do not call the same.

usage: ranks.py DRIVER [CASE]; without CASE it runs each under DRIVER.
"""

import os
import subprocess
import sys

RANKS = 3


def start(name):
    import torch
    import torch.distributed as dist
    rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", 0 if name == "same_gpu" else rank)
    torch.cuda.set_device(device)
    torch.set_num_threads(1)
    dist.init_process_group("nccl", device_id=device)
    return torch, dist, rank, device


def collectives():
    torch, dist, rank, device = start("collectives")
    ranks = list(range(RANKS))

    def check(tensor, expected):
        expected = torch.as_tensor(expected).to(tensor.dtype)
        assert torch.equal(tensor.cpu().flatten(), expected.flatten()), (rank, tensor, expected)

    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int64):
        own = (torch.arange(5) + rank).to(device, dtype)
        for operation, expected in ((dist.ReduceOp.SUM, [3, 6, 9, 12, 15]), (dist.ReduceOp.MAX, [2, 3, 4, 5, 6]), (dist.ReduceOp.MIN, [0, 1, 2, 3, 4])):
            values = own.clone()
            dist.all_reduce(values, op=operation)
            check(values, expected)
    values = torch.full((2,), float(rank), device=device)
    dist.all_reduce(values, op=dist.ReduceOp.AVG)
    check(values, [1., 1.])
    values = torch.full((3,), float(rank), device=device)
    dist.broadcast(values, 2)
    check(values, [2., 2., 2.])
    values = torch.full((1,), float(rank), device=device)
    dist.reduce(values, 1)
    check(values, [3. if rank == 1 else rank])
    gathered = torch.empty(2 * RANKS, device=device)
    dist.all_gather_into_tensor(gathered, torch.tensor([rank, rank + 0.5], device=device))
    check(gathered, [each + half for each in ranks for half in (0, 0.5)])
    parts = [torch.empty(2, device=device) for _ in ranks]
    dist.all_gather(parts, torch.tensor([rank, -rank], dtype=torch.float32, device=device))
    check(torch.stack(parts), [[each, -each] for each in ranks])
    part = torch.empty(2, device=device)
    dist.reduce_scatter_tensor(part, torch.arange(2. * RANKS, device=device))
    check(part, [RANKS * 2. * rank, RANKS * (2. * rank + 1)])
    scaled = torch.empty(2, device=device)
    dist.reduce_scatter_tensor(scaled, torch.arange(2. * RANKS, device=device), op=dist._make_nccl_premul_sum(0.5))
    check(scaled, [RANKS * rank, RANKS * (rank + 0.5)])
    swapped = torch.empty(RANKS, device=device)
    dist.all_to_all_single(swapped, torch.arange(float(RANKS), device=device) + 10 * rank)
    check(swapped, [10. * each + rank for each in ranks])
    # Parts of unequal sizes, one's own among them: rank r sends r + 1 numbers to each, and to rank 0 none but its own.
    counts = [rank + 1 if peer > 0 or rank == 0 else 0 for peer in ranks]
    arriving = [peer + 1 if rank > 0 or peer == 0 else 0 for peer in ranks]
    parts = torch.empty(sum(arriving), device=device)
    dist.all_to_all_single(parts, torch.full((sum(counts),), float(rank), device=device), arriving, counts)
    check(parts, [float(peer) for peer, count in enumerate(arriving) for _ in range(count)])
    # A ring: everybody sends before anybody has received.
    received = torch.empty(1, device=device)
    sent = torch.tensor([float(rank)], device=device)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, sent, (rank + 1) % RANKS),
                                        dist.P2POp(dist.irecv, received, (rank - 1) % RANKS)]):
        work.wait()
    check(received, [(rank - 1.) % RANKS])
    half = dist.new_group([0, 1]), dist.new_group([2])
    values = torch.tensor([float(rank)], device=device)
    dist.all_reduce(values, group=half[rank // 2])
    check(values, [1. if rank < 2 else 2.])
    told = [None] * RANKS
    dist.all_gather_object(told, {"rank": rank})
    assert [each["rank"] for each in told] == ranks
    dist.destroy_process_group()


def model_and_data(torch):
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
    model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return model, torch.randn(2 * RANKS, 4, 16)


def trained(torch, model, data, updates=3):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(updates):
        loss = model(data).square().mean() + (model(data) - data).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.detach()


def agrees(torch, dist, rank, device, wrap):
    """Ranks that share a batch train as one process with all of it, but for the order of sums: 1e-5 is a hundred roundings."""
    model, data = model_and_data(torch)
    loss = trained(torch, wrap(model.to(device)), data[2 * rank:2 * rank + 2].to(device))
    dist.all_reduce(loss, op=dist.ReduceOp.AVG)
    alone, data = model_and_data(torch)
    expected = trained(torch, alone, data)
    assert abs(loss.item() - expected.item()) < 1e-5 * abs(expected.item()), (loss.item(), expected.item())
    dist.destroy_process_group()


def ddp():
    torch, dist, rank, device = start("ddp")
    agrees(torch, dist, rank, device, lambda model: torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank]))


def fsdp():
    torch, dist, rank, device = start("fsdp")
    from torch.distributed.fsdp import fully_shard

    def wrap(model):
        for layer in model.layers:
            fully_shard(layer)
        return fully_shard(model)

    agrees(torch, dist, rank, device, wrap)


def another_collective():
    torch, dist, rank, device = start("another_collective")
    values = torch.ones(4, device=device)
    if rank == 2:
        dist.broadcast(values, 0)
    else:
        dist.all_reduce(values)
    torch.cuda.synchronize()


def same_gpu():
    start("same_gpu")


def one_more():
    torch, dist, rank, device = start("one_more")
    if rank == 0:
        dist.destroy_process_group()
        return
    dist.all_reduce(torch.ones(1, device=device))
    torch.cuda.synchronize()


def times():
    """As a ring takes them, on H100s: the rates stand in common/dry_gpu/rates.cpp. 16 GiB last so long that what this host needs
    for the calls, which is real and may be some milliseconds on a busy machine, is a small part of it."""
    import time
    torch, dist, rank, device = start("times")
    values, count = torch.empty(4 << 30, device=device), RANKS
    part = values[:len(values) // count]
    whole = values[:len(part) * count]

    def seconds(work):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        dist.barrier()
        torch.cuda.synchronize()
        begin.record()
        work()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3

    def ring():
        received = torch.empty_like(values)
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, values, (rank + 1) % count),
                                            dist.P2POp(dist.irecv, received, (rank - 1) % count)]):
            work.wait()

    def late():
        until = time.process_time() + (0.2 if rank == 1 else 0)
        while time.process_time() < until:
            pass
        dist.all_reduce(values)

    def overlapped():
        work = dist.all_reduce(values, async_op=True)
        multiply()
        work.wait()

    def multiply():
        for _ in range(4):
            torch.mm(square, square)

    once = values.nbytes / 370e9
    whole_once = whole.nbytes / 370e9
    square = torch.empty(8192, 8192, device=device)
    multiplied = seconds(multiply)
    summed = 2 * (count - 1) / count * once
    for name, work, expected in (("all_reduce", lambda: dist.all_reduce(values), summed),
                              ("broadcast", lambda: dist.broadcast(values, 0), once),
                              ("reduce", lambda: dist.reduce(values, 1), once),
                              ("all_gather", lambda: dist.all_gather_into_tensor(whole, part), (count - 1) / count * whole_once),
                              ("reduce_scatter", lambda: dist.reduce_scatter_tensor(part, whole), (count - 1) / count * whole_once),
                              ("ring", ring, once),
                              ("late", late, 0.2 + summed),
                              ("overlapped", overlapped, max(multiplied, summed))):
        work()  # a communicator is made by its first use
        lasted = seconds(work)
        assert 0.99 * expected < lasted < expected + 0.02, (rank, name, lasted, expected)
    dist.destroy_process_group()


# A case, the order of streams, and what is said of it; where nothing is, it must end well.
CASES = {collectives: ("--arithmetic=late", ""), ddp: ("--arithmetic=late", ""), fsdp: ("--arithmetic=early", ""), times: ("--time", ""),
         another_collective: ("--arithmetic=late", "ranks call different collectives: number 1 is all_reduce of 4 float32 (sum) on rank 0, and "
                             "broadcast of 4 float32 with root 0 on rank 2"),
         same_gpu: ("--arithmetic=late", "ranks 0 and 1 have the same GPU"),
         one_more: ("--arithmetic=late", "rank 0 has left after 0 collectives, and this rank calls ")}


def run(driver, case, mode):
    """All ranks of a case. A watchdog of LibTorch's may end a rank with a signal, and its backtrace takes long: none is wanted."""
    # No launcher between: ranks find each other by an address, and end when they end.
    import socket
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = []
    for rank in range(RANKS):
        environment = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1",
                           MASTER_PORT=str(port), TORCH_CPP_LOG_LEVEL="FATAL", TORCH_NCCL_ASYNC_ERROR_HANDLING="2",
                           OMP_NUM_THREADS="1")
        command = [driver, "dry", "--gpus", str(RANKS), mode, "--", sys.executable, "-W", "ignore", __file__, driver, case]
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                          start_new_session=True))
    try:
        texts = [process.communicate(timeout=240)[0] for process in processes]
    finally:
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, 9)
    return [process.returncode for process in processes], "\n".join(texts)


def main():
    if len(sys.argv) == 3:
        next(case for case in CASES if case.__name__ == sys.argv[2])()
        return
    failed = 0
    for case, (mode, named) in CASES.items():
        codes, text = run(sys.argv[1], case.__name__, mode)
        well = named in text if named else codes == [0] * RANKS
        print(f"{case.__name__}, {mode}: {'as it should be' if well else 'WRONG'}, ends with {codes}", flush=True)
        if not well:
            failed += 1
            print(text, flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
