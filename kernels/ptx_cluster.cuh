#pragma once
// Inline PTX of compute capability 9.0a for blocks of a cluster, which run at the same time and reach each other's
// shared memory, and for TMA's multicast and stores. For kernels/NAME/NAME_sm90.cu, as ptx_hopper.cuh; each instruction
// is one function with a second body for the microscope.
//
// Source: NVIDIA, "PTX ISA", release 9.0: "barrier.cluster", "mapa", "mbarrier.arrive", "cp.async.bulk.tensor",
// "cp.async.bulk.commit_group", "cp.async.bulk.wait_group".

#include "ptx_hopper.cuh"

namespace tenfold::kernels {

// --- blocks of a cluster ---------------------------------------------------------------------------------------------

/// The block's number in its cluster, from 0 on.
__device__ __forceinline__ uint32_t cluster_rank() {
#ifndef __CUDACC__
  return simt::cluster_rank();
#else
  uint32_t rank = 0;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
#endif
}

/// Arrives at the barrier of all threads of the cluster, behind which others know what this thread did; a wait of its
/// own must come before it arrives again.
__device__ __forceinline__ void cluster_arrive() {
#ifndef __CUDACC__
  simt::arrive_at_cluster_barrier();
#else
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#endif
}
/// Returns when all threads of the cluster have arrived.
__device__ __forceinline__ void cluster_wait() {
#ifndef __CUDACC__
  simt::wait_at_cluster_barrier();
#else
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#endif
}

/// The address of `shared`, which is this block's, at the same place in the shared memory of block `rank` of the
/// cluster.
__device__ __forceinline__ uint32_t cluster_address(const void* shared, uint32_t rank) {
#ifndef __CUDACC__
  return simt::map_to_block(shared, rank);
#else
  uint32_t address = 0;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(shared)), "r"(rank));
  return address;
#endif
}
__device__ __forceinline__ uint32_t cluster_load(uint32_t address) {
#ifndef __CUDACC__
  return simt::load_from_cluster(address);
#else
  uint32_t value = 0;
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
#endif
}
__device__ __forceinline__ void cluster_store(uint32_t address, uint32_t value) {
#ifndef __CUDACC__
  simt::store_to_cluster(address, value);
#else
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
#endif
}

/// Arrives at the mbarrier at `address`, which cluster_address has made. Who waits by mbarrier_wait_cluster knows what
/// this thread stored. That costs: nvcc 13.0 puts a fence of the whole GPU before the arrival (MEMBAR.ALL.GPU), and
/// behind the wait it empties L1 (CCTL.IVALL).
__device__ __forceinline__ void mbarrier_arrive_cluster(uint32_t address) {
#ifndef __CUDACC__
  simt::arrive_in_cluster(address, true);
#else
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(address) : "memory");
#endif
}
/// The same with no order among stores of threads: only that the products have read their operands for which this
/// thread has waited, which is all that a producer must know. CUTLASS's ClusterBarrier::arrive is this one.
__device__ __forceinline__ void mbarrier_arrive_remote(uint32_t address) {
#ifndef __CUDACC__
  simt::arrive_in_cluster(address, false);
#else
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(address) : "memory");
#endif
}
/// mbarrier_wait that sees what threads of other blocks stored before they arrived.
__device__ __forceinline__ void mbarrier_wait_cluster(uint64_t* barrier, uint32_t parity) {
#ifndef __CUDACC__
  simt::wait_at_mbarrier(barrier, parity);
#else
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
#endif
}

// --- TMA -------------------------------------------------------------------------------------------------------------

/// tma_load to the same place in every block of the cluster that has its bit in `blocks`: read once, and each block's
/// own barrier, at the place of `barrier`, is told of all the bytes.
__device__ __forceinline__ void tma_load_multicast(void* shared, const CUtensorMap* map, uint64_t* barrier, int x,
                                                   int y, uint16_t blocks) {
#ifndef __CUDACC__
  simt::copy_box_to(shared, map, barrier, x, y, blocks);
#else
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(shared)),
      "l"(map), "r"(x), "r"(y), "r"(shared_address(barrier)), "h"(blocks)
      : "memory");
#endif
}

/// One thread starts the store of the map's whole box to element (x, y) of the tensor; what lies outside of the tensor
/// is left out. What threads stored to `shared` must be behind a fence_async_proxy.
__device__ __forceinline__ void tma_store(const CUtensorMap* map, const void* shared, int x, int y) {
#ifndef __CUDACC__
  simt::store_box(map, shared, x, y);
#else
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(x), "r"(y),
               "r"(shared_address(shared))
               : "memory");
#endif
}
/// The thread's stores since the last commit are a group.
__device__ __forceinline__ void tma_store_commit() {
#ifndef __CUDACC__
  simt::commit_stores();
#else
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#endif
}
/// Until all but the thread's kNewest last groups have read shared memory, which may then be written again. The results
/// are in global memory for the next kernel, at the end of this one.
template <int kNewest>
__device__ __forceinline__ void tma_store_wait_read() {
#ifndef __CUDACC__
  simt::wait_for_stores(kNewest, true);
#else
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kNewest) : "memory");
#endif
}
/// Until all but the kNewest last groups are complete.
template <int kNewest>
__device__ __forceinline__ void tma_store_wait() {
#ifndef __CUDACC__
  simt::wait_for_stores(kNewest, false);
#else
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kNewest) : "memory");
#endif
}

}  // namespace tenfold::kernels
