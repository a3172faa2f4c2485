# Settings of an existing build folder ($build), for configuring another tree with the same compiler and LibTorch; sourced by tests.
cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
toolkit=$(cached CUDA_TOOLKIT_ROOT_DIR)
export CUDA_HOME=$toolkit CUDA_PATH=$toolkit CUDACXX=$toolkit/bin/nvcc
export TENFOLD_CACHE=${TENFOLD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tenfold}
export CCACHE_DIR=$TENFOLD_CACHE/ccache CCACHE_NOHASHDIR=1
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
torch_settings=(-DCMAKE_CXX_COMPILER="$(cached CMAKE_CXX_COMPILER)" -DTorch_DIR="$(cached Torch_DIR)" -DCUDAToolkit_ROOT="$toolkit"
  -DCUDA_TOOLKIT_ROOT_DIR="$toolkit")
