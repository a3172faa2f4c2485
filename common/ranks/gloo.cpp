// The one file that includes gloo's headers. LibTorch's wheel carries the code of gloo but not its headers; the
// system's headers are of another year, and only their declarations of the transport device are used here.
#include "common/ranks/process_group.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <cstdlib>

namespace tenfold {

c10::intrusive_ptr<c10d::ProcessGroup> gloo_group(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                                  int world_size, std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  options->devices.push_back(interface != nullptr ? c10d::ProcessGroupGloo::createDeviceForInterface(interface)
                             : std::getenv("MASTER_ADDR") != nullptr &&
                                     std::string(std::getenv("MASTER_ADDR")) != "localhost" &&
                                     std::string(std::getenv("MASTER_ADDR")) != "127.0.0.1"
                                 ? c10d::ProcessGroupGloo::createDefaultDevice()
                                 // All ranks on this machine: the loopback works whatever the host's name resolves to.
                                 : c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  options->threads = 1;
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, world_size);
  const auto backend = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, world_size, options);
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, backend);
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
  return group;
}

}  // namespace tenfold
