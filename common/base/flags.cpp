#include "common/base/flags.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <iostream>
#include <set>
#include <stdexcept>
#include <system_error>

#include "common/base/text.h"

namespace tenfold {
namespace {

// What lessons and kernels' pages have in common.
Flag json_flag() { return {.name = "--json", .value = "FILE", .help = "write the result to this file, as JSON"}; }
Flag describe_flag() {
  return {.name = "--describe", .value = "", .help = "print a description, as JSON, and run nothing"};
}

bool unlimited(const Range& range) {
  return range.most == std::numeric_limits<int>::max() || range.most == std::numeric_limits<int64_t>::max();
}

std::string text_of(const Range& range) {
  return std::to_string(range.least) + (unlimited(range) ? " or more" : " to " + std::to_string(range.most));
}

/// "cpu, gpu8 or gpu80".
std::string text_of(const std::vector<std::string>& choices) {
  std::string text;
  for (size_t i = 0; i < choices.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == choices.size() ? " or " : ", ") + choices[i];
  }
  return text;
}

void check_choice(const Flag& flag, const std::string& text) {
  const auto takes = [&text](const std::string& choice) {
    const size_t colon = choice.find(':');
    return colon == std::string::npos ? text == choice
                                      : text.size() > colon + 1 && text.starts_with(choice.substr(0, colon + 1));
  };
  if (std::ranges::any_of(flag.choices, takes)) return;
  const std::string guess = nearest(text, flag.choices);
  throw std::invalid_argument(flag.name + " " + one_line(text) + ": expected " + text_of(flag.choices) +
                              (guess.empty() ? "" : "; did you mean '" + guess + "'?"));
}

void check_number(const Flag& flag, const std::string& text) {
  const Range& range = *flag.range;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error != std::errc::invalid_argument && end == text.data() + text.size();
  const bool too_long = error == std::errc::result_out_of_range;
  const bool above = whole && (too_long ? text.front() != '-' : number > range.most);
  if (whole && !too_long && !above && number >= range.least) return;
  // Only a number that no variable holds needs to hear of that limit.
  const std::string limits = above ? std::to_string(range.least) + " to " + std::to_string(range.most) : text_of(range);
  throw std::invalid_argument(flag.name + " " + one_line(text) + ": expected " + (whole ? "" : "a whole number, ") +
                              limits);
}

/// "1,2,4" becomes 1, 2 and 4, as text; what lies between two commas may be empty.
std::vector<std::string> items_of(const std::string& list) {
  std::vector<std::string> items;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    items.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return items;
}

void check_list(const Flag& flag, const std::string& text) {
  std::set<std::string> seen;
  for (const std::string& item : items_of(text)) {
    check_number(flag, item);
    if (!seen.insert(std::to_string(std::stoll(item))).second)
      throw std::invalid_argument(flag.name + " " + text + ": " + item + " is there twice");
  }
}

void check_values(const Flag& flag, const std::vector<std::string>& values) {
  if (values.size() > 1 && !flag.repeats) {
    throw std::invalid_argument(flag.name + ": was given " + std::to_string(values.size()) + " times; give it once");
  }
  for (const std::string& text : values) {
    if (text.empty()) throw std::invalid_argument(flag.name + ": its value is empty; expected " + flag.value);
    if (!flag.choices.empty()) check_choice(flag, text);
    if (flag.list) {
      check_list(flag, text);
    } else if (flag.range) {
      check_number(flag, text);
    }
  }
}

}  // namespace

std::vector<Flag> lesson_flags() {
  return {
      {.name = "--preset",
       .value = "NAME",
       .help = "how long to measure: build (not at all: do the settings go together?), check (no times: agreement and "
               "memory), smoke (seconds, no verdict on "
               "speed), quick (the default, about half a minute a lesson) or full (about a minute a case)",
       .choices = {"build", "check", "smoke", "quick", "full"}},
      {.name = "--size",
       .value = "NAME",
       .help = "how large the problem is: cpu, gpu8 or gpu80 (GB of GPU memory); chosen by the device unless given",
       .choices = {"cpu", "gpu8", "gpu80"}},
      {.name = "--device",
       .value = "NAME",
       .help = "auto (the default), cpu, cuda or dry:CARD; auto is cuda where each rank has a GPU, dry:H100 a GPU that "
               "is not there: memory, agreement and modelled speeds (tenfold dry --list)",
       .choices = {"auto", "cpu", "cuda", "dry:CARD"}},
      {.name = "--case", .value = "NAME", .help = "run only this case; repeat the flag for more", .repeats = true},
      {.name = "--only",
       .value = "NAME",
       .help = "run only this technique, and the baseline, where they are compared; repeat the flag for more",
       .repeats = true},
      {.name = "--set",
       .value = "NAME=VALUE",
       .help = "change a setting of every case; repeat the flag for more",
       .repeats = true},
      {.name = "--sweep",
       .value = "NAME=A,B,C",
       .help = "run one case, the first or the one of --case, once for each of these values of a setting"},
      {.name = "--rounds",
       .value = "N",
       .help = "time this many rounds, instead of what the preset's time holds; under 6 there is no verdict on speed",
       .range = Range{1}},
      {.name = "--seed",
       .value = "N",
       .help = "seed of weights, batches and dropout (1234 unless given)",
       .range = Range{0, std::numeric_limits<int64_t>::max()}},
      {.name = "--threads",
       .value = "N",
       .help = "intra-op threads of each rank (1 unless given)",
       .range = Range{1, 1024}},
      {.name = "--ranks",
       .value = "N,N,...",
       .help = "run what takes any number of ranks on so many, once for each number; unless given, on as many as there "
               "are GPUs, and on 2 where there are fewer",
       .range = Range{1, kMostRanks},
       .list = true},
      json_flag(),
      {.name = "--resume",
       .value = "",
       .help = "keep the cases that a run which was stopped has written to the result's file, if it had the same code "
               "and flags on this machine; measure the others"},
      {.name = "--trace",
       .value = "FILE",
       .help = "write a Chrome trace of " + std::to_string(kTracedSteps) +
               " steps of each variant to FILE.CASE.VARIANT.json (with several ranks, FILE.CASE.VARIANT.rankN.json)"},
      describe_flag(),
  };
}

std::vector<Flag> kernel_flags() {
  return {
      {.name = "--rung",
       .value = "NAME",
       .help = "one version in detail, by number or name; without it one line for each version"},
      {.name = "--shape",
       .value = "NAME=N,NAME=N",
       .help = "sizes instead of the kernel's own, e.g. rows=256,columns=300"},
      json_flag(),
      {.name = "--pictures", .value = "DIR", .help = "write a picture of each access, an SVG, to this folder"},
      {.name = "--no-races", .value = "", .help = "skip the search for races: faster"},
      describe_flag(),
  };
}

Flag lesson_flag(const std::string& name) {
  for (const Flag& flag : lesson_flags()) {
    if (flag.name == name) return flag;
  }
  throw std::out_of_range(name + " is no flag of the lessons");
}

CLI::Option* add_flag(CLI::App& app, const Flag& flag, GivenFlags& given) {
  if (flag.value.empty()) {
    return app.add_flag_callback(flag.name, [&given, name = flag.name] { given[name] = {}; }, flag.help);
  }
  const auto take = [&given, flag](const std::vector<std::string>& values) {
    check_values(flag, values);
    given[flag.name] = values;
    return true;
  };
  // take_all: check_values counts them, and says it better.
  return app.add_option(flag.name, take, flag.help)->type_name(flag.value)->take_all();
}

std::string value_of(const GivenFlags& given, const std::string& name, const std::string& otherwise) {
  const auto found = given.find(name);
  return found == given.end() ? otherwise : found->second.front();
}

int64_t number_of(const GivenFlags& given, const std::string& name, int64_t otherwise) {
  return given.contains(name) ? std::stoll(value_of(given, name, "")) : otherwise;
}

std::vector<int64_t> numbers_of(const GivenFlags& given, const std::string& name) {
  std::vector<int64_t> numbers;
  if (!given.contains(name)) return numbers;
  for (const std::string& item : items_of(value_of(given, name, ""))) numbers.push_back(std::stoll(item));
  return numbers;
}

std::vector<std::string> values_of(const GivenFlags& given, const std::string& name) {
  const auto found = given.find(name);
  return found == given.end() ? std::vector<std::string>{} : found->second;
}

std::vector<std::string> as_arguments(const GivenFlags& given) {
  std::vector<std::string> arguments;
  for (const auto& [name, values] : given) {
    if (values.empty()) arguments.push_back(name);
    for (const std::string& value : values) arguments.push_back(name), arguments.push_back(value);
  }
  return arguments;
}

std::vector<std::string> recorded_flags(GivenFlags given) {
  for (const char* const of_no_result : {"--json", "--trace", "--resume"}) given.erase(of_no_result);
  return as_arguments(given);
}

bool parse_flags(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return true;
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return false;
  } catch (const CLI::ParseError& error) {
    throw UsageError(std::string(error.what()) + "; see --help");
  } catch (const std::invalid_argument& error) {
    throw UsageError(error.what());
  }
}

}  // namespace tenfold
