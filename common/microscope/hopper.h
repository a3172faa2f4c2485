#pragma once
// The kernel's side of what kernels/ptx_hopper.cuh has in it, which says what each instruction does. Only that file
// includes this.

#include <cuda.h>

#include <cstdint>

#include "common/microscope/built_ins.h"

namespace tenfold::simt {

/// A pointer into shared memory as an address of the shared window, 32 bits. Dynamic shared memory begins there at 128
/// modulo 1024, which is all that __align__(128) promises: a tile that must begin at a multiple of 1024 has to see to
/// it. Static shared memory lies above 256 KiB, where no matrix descriptor reaches.
uint32_t shared_window_address(const void* pointer);

/// fence.proxy.async: what the thread stored, and knows to be stored, may be read by wgmma from here on.
void fence_async_proxy();

/// mbarrier.init for `arrivals` in each phase. A store, for the search for races; the others are atomics.
void init_mbarrier(const uint64_t* barrier, int arrivals);
/// fence.mbarrier_init, of the barriers that this thread initialised: TMA may be told of them from here on.
void fence_mbarriers();
/// mbarrier.arrive, which announces `bytes` first.
void arrive_at_mbarrier(const uint64_t* barrier, uint32_t bytes);
/// mbarrier.try_wait.parity until it is true.
void wait_at_mbarrier(const uint64_t* barrier, uint32_t parity);

/// cuTensorMapEncodeTiled: the arguments and errors are the driver's, what is written is the microscope's own. Only
/// matrices (rank 2) and stacks of them (rank 3, a box lies in one) in boxes without steps are taken, swizzled in
/// no way or with rows as wide as the swizzle; for others the result is CUDA_ERROR_NOT_SUPPORTED.
CUresult encode_tensor_map(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* data,
                           const cuuint64_t* size, const cuuint64_t* strides, const cuuint32_t* box,
                           const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                           CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill);
/// cp.async.bulk.tensor.2d from global to shared memory, of the map's box at (x, y); .3d, of the one in matrix z.
void copy_box(void* shared, const CUtensorMap* map, const uint64_t* barrier, int x, int y, int z = 0);

/// The same to the same place in every block of the cluster that has a bit in `mask`, each of which reports to its own
/// mbarrier there.
void copy_box_to(void* shared, const CUtensorMap* map, const uint64_t* barrier, int x, int y, uint32_t mask);
/// cp.async.bulk.tensor.2d from shared to global memory, of the map's box at (x, y).
void store_box(const CUtensorMap* map, const void* shared, int x, int y);
void commit_stores();
/// Until at most the `newest` groups of the thread's stores are under way, or `only_read`: read shared memory.
void wait_for_stores(int newest, bool only_read);

/// Of the block in its cluster; and the blocks of that.
uint32_t cluster_rank();
uint32_t cluster_blocks();
/// mapa: the address of the same place in another block of the cluster; only the functions below take it.
uint32_t map_to_block(const void* shared, uint32_t block);
uint32_t load_from_cluster(uint32_t address);
void store_to_cluster(uint32_t address, uint32_t value);
/// mbarrier.arrive at another block's barrier; with .release.cluster or, where not `release`, so that only the products
/// that the thread has waited for are known there.
void arrive_in_cluster(uint32_t address, bool release);
/// barrier.cluster.arrive, barrier.cluster.wait.
void arrive_at_cluster_barrier();
void wait_at_cluster_barrier();

void warpgroup_fence();
void warpgroup_commit();
void warpgroup_wait(int newest);
/// `count` sums from d on are used from here on.
void warpgroup_settle(const float* d, int count);
/// wgmma.mma_async.m64nNk16 of f16 or bf16, or .m64nNk32 of e4m3, N = columns: d has columns / 2 sums of the thread.
/// `across`: neighbours in shared memory do not lie along the depth but along the rows of A or the columns of B, which
/// is a fault with operands of 8 bits. Products are added in float64, and their sum to d, rounded once to float.
void warpgroup_multiply(MatrixType type, int columns, float* d, uint64_t a, uint64_t b, bool add, bool a_across,
                        bool b_across);

/// The same with A in registers, f16 or bf16 alone: `a` are four of the thread, two elements each.
void warpgroup_multiply_registers(MatrixType type, int columns, float* d, const uint32_t* a, uint64_t b, bool add,
                                  bool b_across);
/// `count` registers of operands from a on may change from here on.
void warpgroup_settle(const uint32_t* a, int count);

/// bar.sync and bar.arrive at barrier 1 to 15 of the block, for so many threads, a multiple of 32.
void sync_named_barrier(int number, int threads);
void arrive_at_named_barrier(int number, int threads);

/// Of the GPU that persistent kernels make their grid for: Options::multiprocessors.
int multiprocessors(const Device& device);

}  // namespace tenfold::simt
