// CUDA's compiler at run time, for operators whose kernels LibTorch compiles when they are first called (exp2, gcd,
// special functions). Nothing is compiled, since a dry card runs no kernel: a module has one byte, and a kernel's name
// is what it was asked for by. The real one asks the driver for a table that no documentation names, and crashes
// without it.

#include <cuda_runtime.h>
#include <nvrtc.h>

#include <cstring>
#include <set>
#include <string>

namespace {

using Names = std::set<std::string>;  // the names keep their places

Names& names_of(nvrtcProgram program) { return *reinterpret_cast<Names*>(program); }

nvrtcResult size_of_nothing(nvrtcProgram program, size_t* bytes) {
  if (program == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  *bytes = 1;
  return NVRTC_SUCCESS;
}

nvrtcResult nothing(nvrtcProgram program, char* text) {
  if (program == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  *text = '\0';
  return NVRTC_SUCCESS;
}

}  // namespace

extern "C" {

nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* source, const char*, int, const char* const*,
                               const char* const*) {
  if (program == nullptr || source == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  *program = reinterpret_cast<nvrtcProgram>(new Names);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  if (program == nullptr || *program == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  delete &names_of(*program);
  *program = nullptr;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcAddNameExpression(nvrtcProgram program, const char* name) {
  if (program == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  names_of(program).insert(name);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int, const char* const*) {
  return program == nullptr ? NVRTC_ERROR_INVALID_PROGRAM : NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetLoweredName(nvrtcProgram program, const char* name, const char** lowered) {
  if (program == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  const auto found = names_of(program).find(name);
  if (found == names_of(program).end()) return NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
  *lowered = found->c_str();
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* bytes) { return size_of_nothing(program, bytes); }
nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t* bytes) { return size_of_nothing(program, bytes); }
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t* bytes) { return size_of_nothing(program, bytes); }
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* module) { return nothing(program, module); }
nvrtcResult nvrtcGetPTX(nvrtcProgram program, char* module) { return nothing(program, module); }
nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log) { return nothing(program, log); }

nvrtcResult nvrtcVersion(int* major, int* minor) {
  *major = CUDART_VERSION / 1000;
  *minor = CUDART_VERSION % 1000 / 10;
  return NVRTC_SUCCESS;
}

const char* nvrtcGetErrorString(nvrtcResult result) {
  return result == NVRTC_SUCCESS                           ? "no error"
         : result == NVRTC_ERROR_INVALID_PROGRAM           ? "there is no such program"
         : result == NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID ? "that name was not added to the program"
                                                           : "an invalid argument";
}
}
