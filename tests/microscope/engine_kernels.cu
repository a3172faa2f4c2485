#include "engine_kernels.h"

#include <stdexcept>
#include <string>

#include "attention_kernels.cuh"
#include "built_ins.cuh"
#include "cluster_kernels.cuh"
#include "counts.cuh"  // a roundabout name, which reports must not repeat
#include "eight_bit_kernels.cuh"
#include "faults.cuh"
#include "hopper_kernels.cuh"
#include "ptx_kernels.cuh"

namespace tenfold::test {
namespace {

template <class Out, class In>
void start(simt::Stream stream, const Launch& launch, void (*kernel)(Out*, const In*, int64_t), void* out,
           const void* in, int64_t n) {
  const auto& [grid, block, shared_bytes, cluster] = launch;
  kernels::launch_cluster(stream, dim3(grid[0], grid[1], grid[2]), dim3(block[0], block[1], block[2]), cluster,
                          shared_bytes, kernel, static_cast<Out*>(out), static_cast<const In*>(in), n);
}

/// Whether `name` is the kernel's, and if so starts it.
template <class Kernel>
struct Named {
  std::string_view name;
  Kernel kernel;
};
template <class Kernel>
Named(const char*, Kernel) -> Named<Kernel>;

template <class... Kernels>
void start_named(std::string_view name, const auto& start_it, const Named<Kernels>&... all) {
  const bool found = ((all.name == name && (start_it(all.kernel), true)) || ...);
  if (!found) throw std::invalid_argument("no test kernel is called " + std::string(name));
}

}  // namespace

void run_kernel(simt::Stream stream, std::string_view name, const Launch& launch, void* out, const void* in,
                int64_t n) {
  start_named(
      name, [&](auto kernel) { start(stream, launch, kernel, out, in, n); },
      // built_ins.cuh
      Named{"shuffle", shuffle}, Named{"shuffle_types", shuffle_types}, Named{"votes", votes},
      Named{"split_warp", split_warp}, Named{"partial_warp", partial_warp}, Named{"block_votes", block_votes},
      Named{"atomics", atomics}, Named{"atomic_pairs", atomic_pairs}, Named{"dynamic_reverse", dynamic_reverse},
      Named{"indices", indices}, Named{"dot_of_bytes", dot_of_bytes}, Named{"fresh_shared", fresh_shared},
      Named{"early_exit", early_exit},
      // counts.cuh
      Named{"strided", strided}, Named{"shifted", shifted}, Named{"broadcast", broadcast}, Named{"masked", masked},
      Named{"sectors_twice", sectors_twice}, Named{"ragged_loop", ragged_loop}, Named{"two_buffers", two_buffers},
      Named{"as_float2", as_float2}, Named{"as_float4", as_float4}, Named{"as_half", as_half},
      Named{"as_eight_halves", as_eight_halves}, Named{"as_bfloat16", as_bfloat16}, Named{"as_ldg", as_ldg},
      Named{"as_double", as_double}, Named{"as_three_floats", as_three_floats}, Named{"shared_strided", shared_strided},
      Named{"shared_wide", shared_wide}, Named{"shared_float4_column", shared_float4_column},
      Named{"shared_half", shared_half}, Named{"count_atomics", count_atomics}, Named{"far_end", far_end},
      Named{"unique", unique},
      // faults.cuh
      Named{"missing_barrier", missing_barrier}, Named{"missing_barrier_byte", missing_barrier_byte},
      Named{"with_barrier", with_barrier}, Named{"missing_second_barrier", missing_second_barrier},
      Named{"double_buffer", double_buffer}, Named{"missing_syncwarp", missing_syncwarp},
      Named{"shuffle_instead_of_syncwarp", shuffle_instead_of_syncwarp}, Named{"warp_synchronous", warp_synchronous},
      Named{"syncwarp_between_warps", syncwarp_between_warps}, Named{"half_warps", half_warps},
      Named{"half_warps_crossed", half_warps_crossed}, Named{"syncwarp_chain", syncwarp_chain},
      Named{"atomics_together", atomics_together}, Named{"atomic_without_barrier", atomic_without_barrier},
      Named{"blocks_write_same", blocks_write_same}, Named{"last_block_overwrites", last_block_overwrites},
      Named{"last_block_fenced", last_block<true>}, Named{"last_block_unfenced", last_block<false>},
      Named{"add_one", add_one}, Named{"off_by_one", off_by_one}, Named{"before_the_start", before_the_start},
      Named{"dynamic_off_by_one", dynamic_off_by_one}, Named{"misaligned", misaligned},
      Named{"misaligned_copy", misaligned_copy}, Named{"misaligned_store", misaligned_store},
      Named{"null_pointer", null_pointer}, Named{"wild_pointer", wild_pointer},
      Named{"shuffle_from_outside", shuffle_from_outside}, Named{"mask_without_caller", mask_without_caller},
      Named{"lanes_that_never_come", lanes_that_never_come},
      Named{"lanes_wait_for_each_other", lanes_wait_for_each_other}, Named{"barrier_in_branch", barrier_in_branch},
      Named{"two_barriers", two_barriers}, Named{"barrier_after_branch", barrier_after_branch},
      // ptx_kernels.cuh
      Named{"register_half", register_of_two<__half>}, Named{"register_bfloat16", register_of_two<__nv_bfloat16>},
      Named{"mma_half", mma_product<__half>}, Named{"mma_bfloat16", mma_product<__nv_bfloat16>},
      Named{"mma_tf32", mma_tf32}, Named{"mma_ldmatrix_half", mma_ldmatrix<__half>},
      Named{"mma_ldmatrix_bfloat16", mma_ldmatrix<__nv_bfloat16>}, Named{"mma_int8", mma_eight_bit_product<int>},
      Named{"mma_e4m3", mma_eight_bit_product<float>}, Named{"e4m3_as_halves", e4m3_as_halves},
      Named{"mma_31_lanes", mma_31_lanes}, Named{"mma_in_branches", mma_in_branches},
      Named{"ldmatrix_registers", ldmatrix_registers}, Named{"ldmatrix_stride", ldmatrix_stride},
      Named{"ldmatrix_pair", ldmatrix_pair}, Named{"ldmatrix_race", ldmatrix_race},
      Named{"ldmatrix_misaligned", ldmatrix_misaligned}, Named{"ldmatrix_outside", ldmatrix_outside},
      Named{"ldmatrix_global", ldmatrix_global}, Named{"copy_reverse", copy_reverse}, Named{"copy_own", copy_own},
      Named{"copy_pipeline", copy_pipeline<true>}, Named{"copy_pipeline_unordered", copy_pipeline<false>},
      Named{"copy_groups", copy_groups}, Named{"copy_part_4", copy_part<4>}, Named{"copy_part_8", copy_part<8>},
      Named{"copy_part_16", copy_part<16>}, Named{"copy_strided", copy_strided}, Named{"copy_fault", copy_fault},
      // hopper_kernels.cuh
      Named{"mbarrier_hand_over", mbarrier_hand_over}, Named{"mbarrier_rounds", mbarrier_rounds<0>},
      Named{"mbarrier_rounds_unordered", mbarrier_rounds<1>}, Named{"mbarrier_rounds_unanswered", mbarrier_rounds<2>},
      Named{"mbarrier_chain", mbarrier_chain}, Named{"mbarrier_mistake", mbarrier_mistake}, Named{"box_at", box_at},
      Named{"box_mistake", box_mistake}, Named{"wgmma_product_half", wgmma_product<__half>},
      Named{"wgmma_product_bfloat16", wgmma_product<__nv_bfloat16>}, Named{"wgmma_mistake", wgmma_mistake},
      // cluster_kernels.cuh
      Named{"cluster_hand_on", cluster_hand_on<false>}, Named{"cluster_hand_on_static", cluster_hand_on<true>},
      Named{"cluster_mbarriers", cluster_mbarriers}, Named{"cluster_multicast", cluster_multicast},
      Named{"box_stored_at", box_stored_at}, Named{"box_store_mistake", box_store_mistake},
      // attention_kernels.cuh
      Named{"named_hand_over", named_hand_over}, Named{"named_rounds", named_rounds<0>},
      Named{"named_rounds_unordered", named_rounds<1>}, Named{"box_of_stack", box_of_stack},
      Named{"wgmma_64_half", wgmma_narrow<__half, 64>}, Named{"wgmma_128_half", wgmma_narrow<__half, 128>},
      Named{"wgmma_64_bfloat16", wgmma_narrow<__nv_bfloat16, 64>},
      Named{"wgmma_128_bfloat16", wgmma_narrow<__nv_bfloat16, 128>},
      Named{"wgmma_operand_mistake", wgmma_operand_mistake},
      // eight_bit_kernels.cuh
      Named{"wgmma_e4m3", wgmma_e4m3}, Named{"wgmma_8bit_mistake", wgmma_8bit_mistake});
}

}  // namespace tenfold::test
