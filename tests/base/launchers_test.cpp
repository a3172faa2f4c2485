// Who is a rank, by what launchers and other people leave in the environment; and the numbers that stand there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/base/launchers.h"

#include "tests/support/support.h"

namespace {

using testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

tenfold::Ranks ranks_of(Variables variables) {
  variables.insert({{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}});
  return tenfold::ranks_from_environment([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(Ranks, AreReadFromEveryLauncher) {
  struct Launched {
    Variables variables;
    tenfold::Ranks ranks;
  };
  const std::vector<Launched> launches = {
      {{}, {}},
      {{{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_WORLD_SIZE", "4"}}, {5, 8, "torchrun", 4}},
      {{{"RANK", "1"}, {"WORLD_SIZE", "2"}}, {1, 2, "torchrun", 2}},
      {{{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}},
       {3, 4, "openmpi", 2}},
      {{{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALNRANKS", "2"}}, {3, 4, "mpich", 2}},
      // mpirun within a Slurm allocation: Slurm counts its proxies.
      {{{"PMI_RANK", "3"},
        {"PMI_SIZE", "4"},
        {"MPI_LOCALNRANKS", "2"},
        {"SLURM_PROCID", "1"},
        {"SLURM_STEP_ID", "0"},
        {"SLURM_NTASKS", "2"}},
       {3, 4, "mpich", 2}},
      {{{"SLURM_PROCID", "10"}, {"SLURM_STEP_ID", "0"}, {"SLURM_NTASKS", "11"}, {"SLURM_NTASKS_PER_NODE", "4"}},
       {10, 11, "slurm", 4}},
      {{{"SLURM_PROCID", "10"},
        {"SLURM_STEP_ID", "0"},
        {"SLURM_NTASKS", "11"},
        {"SLURM_STEP_TASKS_PER_NODE", "4(x2),3"},
        {"SLURM_NODEID", "2"}},
       {10, 11, "slurm", 3}},
      {{{"SLURM_PROCID", "5"},
        {"SLURM_STEP_ID", "0"},
        {"SLURM_NTASKS", "11"},
        {"SLURM_STEP_TASKS_PER_NODE", "4(x2),3"},
        {"SLURM_NODEID", "1"}},
       {5, 11, "slurm", 4}},
      // Slurm's PMI, and a launcher that says no more than this: one list for the driver and the lessons.
      {{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}, {1, 2, "mpich", 2}},
      {{{"PMI_RANK", "1"},
        {"PMI_SIZE", "2"},
        {"SLURM_PROCID", "1"},
        {"SLURM_STEP_ID", "0"},
        {"SLURM_NTASKS", "2"},
        {"SLURM_NTASKS_PER_NODE", "1"}},
       {1, 2, "slurm", 1}},
      // Within an allocation, but not started by srun.
      {{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}}, {}},
      // Shells of a launcher that has started one process, and variables of other people.
      {{{"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "0"}, {"SLURM_NTASKS", "1"}}, {}},
      {{{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}, {}},
      {{{"RANK", "0"}, {"WORLD_SIZE", "1"}}, {}},
      {{{"RANK", "0"}}, {}},
      {{{"WORLD_SIZE", "1"}}, {}},
      {{{"PMI_RANK", "0"}}, {}},
      {{{"RANK", "0"}, {"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}}, {1, 2, "openmpi", 2}}};
  for (const auto& [variables, expected] : launches) {
    const tenfold::Ranks ranks = ranks_of(variables);
    EXPECT_EQ(ranks.launcher, expected.launcher);
    EXPECT_EQ(ranks.rank, expected.rank) << expected.launcher;
    EXPECT_EQ(ranks.world_size, expected.world_size) << expected.launcher;
    EXPECT_EQ(ranks.local_size, expected.local_size) << expected.launcher;
    EXPECT_EQ(ranks.origin.empty(), expected.launcher.empty());
  }
}

TEST(Ranks, EveryRefusalNamesItsVariables) {
  const auto refusal = [](Variables variables) {
    return tenfold::test::message_of<std::invalid_argument>([&] { ranks_of(std::move(variables)); });
  };
  struct Launcher {
    std::string rank, size, local;
    Variables more;
  };
  const std::vector<Launcher> launchers = {
      {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", {}},
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", {}},
      {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", {}},
      {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", {{"SLURM_STEP_ID", "0"}}}};
  for (const Launcher& launcher : launchers) {
    const auto with = [&](const std::string& rank, const std::string& size, const std::string& local) {
      Variables variables = launcher.more;
      if (!rank.empty()) variables[launcher.rank] = rank;
      if (!size.empty()) variables[launcher.size] = size;
      if (!local.empty()) variables[launcher.local] = local;
      return refusal(variables);
    };
    for (const std::string wrong :
         {"zero", "-1", "+1", " 1", "1 ", "1.0", "0x1", "99999999999", "9999999999999999999999"}) {
      EXPECT_THAT(with(wrong, "2", ""), HasSubstr(launcher.rank + " is '" + wrong + "': expected a whole number"));
      EXPECT_THAT(with("0", wrong, ""), HasSubstr(launcher.size + " is '" + wrong + "': expected a whole number"));
      EXPECT_THAT(with("0", "2", wrong), HasSubstr(launcher.local + " is '" + wrong + "': expected a whole number"));
      if (launcher.local != "MPI_LOCALNRANKS")
        EXPECT_THAT(with(wrong, "", ""), HasSubstr(launcher.rank + " is '" + wrong + "'"));
    }
    EXPECT_THAT(with("2", "2", ""), HasSubstr("(" + launcher.rank + "=2, " + launcher.size + "=2) makes no sense"));
    EXPECT_THAT(with("0", "0", ""), HasSubstr("rank 0 of 0 (" + launcher.rank + "=0, " + launcher.size + "=0)"));
    EXPECT_THAT(with("3", "", ""), HasSubstr(launcher.size + " is not set, but " + launcher.rank + "=3"));
    EXPECT_THAT(with("", "2", ""), HasSubstr(launcher.rank + " is not set, but " + launcher.size + "=2"));
    EXPECT_THAT(with("3", "", ""), HasSubstr("unset these variables in a shell that is no rank"));
    for (const std::string wrong : {"", "http", "0", "65536", "-5"}) {
      Variables variables = launcher.more;
      variables.insert({{launcher.rank, "0"}, {launcher.size, "2"}, {"MASTER_PORT", wrong}});
      EXPECT_THAT(refusal(variables), HasSubstr("MASTER_PORT is '" + wrong + "': expected a whole number, 1 to 65535"));
    }
  }
  for (const std::string wrong : {"", "4(x2", "4(x)", "four", "0", "4(y2)", "-4", "4(x2)3"}) {
    const std::string said = refusal({{"SLURM_PROCID", "0"},
                                      {"SLURM_STEP_ID", "0"},
                                      {"SLURM_NTASKS", "11"},
                                      {"SLURM_STEP_TASKS_PER_NODE", wrong},
                                      {"SLURM_NODEID", "7"}});
    EXPECT_EQ(wrong.empty(), said.empty()) << wrong << ": " << said;
    if (!wrong.empty()) EXPECT_THAT(said, HasSubstr("SLURM_STEP_TASKS_PER_NODE is '" + wrong + "'"));
  }
}

TEST(Ranks, WithoutAnAddressAreToldWhatTheirLauncherNeeds) {
  const std::map<std::string, Variables> launched = {
      {"start the ranks with torchrun", {{"RANK", "0"}, {"WORLD_SIZE", "2"}}},
      {"mpirun -x MASTER_ADDR=", {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}}},
      {"mpirun -genv MASTER_ADDR ", {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}},
      {"before srun: export MASTER_ADDR=", {{"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "0"}, {"SLURM_NTASKS", "2"}}}};
  for (const auto& [advice, variables] : launched) {
    for (const bool has_address : {false, true}) {
      const std::string said = tenfold::test::message_of<std::invalid_argument>([&] {
        tenfold::ranks_from_environment([&](const char* name) {
          if (has_address && std::string(name) == "MASTER_ADDR") return "127.0.0.1";
          const auto variable = variables.find(name);
          return variable == variables.end() ? nullptr : variable->second.c_str();
        });
      });
      EXPECT_THAT(said, HasSubstr(has_address ? "MASTER_PORT is not set" : "MASTER_ADDR is not set"));
      EXPECT_THAT(said, HasSubstr(advice));
    }
  }
}

TEST(Ranks, NumbersOfTheEnvironmentAreReadWhole) {
  const auto number = [](const char* text) {
    return tenfold::number_of_environment("TENFOLD_TIMEOUT_S", {1, 100}, 60, [&](const char*) { return text; });
  };
  EXPECT_EQ(number(nullptr), 60);
  EXPECT_EQ(number("1"), 1);
  EXPECT_EQ(number("100"), 100);
  for (const char* wrong : {"", "abc", "0", "101", "5s", "1e2", "\n5"}) {
    EXPECT_THAT(tenfold::test::message_of<std::invalid_argument>([&] { number(wrong); }),
                HasSubstr("TENFOLD_TIMEOUT_S is '"))
        << wrong;
  }
}

}  // namespace
