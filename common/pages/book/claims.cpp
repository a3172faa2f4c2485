#include "common/pages/book/claims.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <stdexcept>

#include "common/base/text.h"

namespace tenfold {
namespace {

using Json = nlohmann::json;

/// The labels that a rule may name, by metric.
const std::map<std::string, std::vector<std::string>> kLabels = {
    {"speed", {"FASTER", "SLOWER", "SAME"}},
    {"memory", {"SMALLER", "LARGER", "SAME"}},
    {"quality", {"BETTER", "NOT WORSE", "WORSE"}},
    {"agreement", {"agrees", "disagrees"}},
    {"note", {}},
};

/// One row: each field is asked for once, and what nobody asked for is unknown.
class Row {
 public:
  Row(const Json& json, std::string name) : json_(json), name_(std::move(name)) {
    if (!json.is_object()) throw std::invalid_argument(name_ + ": expected an object");
  }
  std::string text(const std::string& field, bool required = true) {
    const Json* value = find(field, required);
    if (!value) return "";
    const std::string words = value->is_string() ? value->get<std::string>() : "";
    if (words.empty() || one_line(words) != words)
      throw std::invalid_argument(name_ + ": " + field + ": expected a line of text");
    return words;
  }
  const Json& list(const std::string& field) {
    const Json* value = find(field, true);
    if (!value->is_array() || value->empty())
      throw std::invalid_argument(name_ + ": " + field + ": expected a list that is not empty");
    return *value;
  }
  void done() const {
    for (const auto& [field, value] : json_.items()) {
      if (!asked_.contains(field)) throw std::invalid_argument(name_ + ": unknown field '" + field + "'");
    }
  }

 private:
  const Json* find(const std::string& field, bool required) {
    asked_.insert(field);
    const auto found = json_.find(field);
    if (found != json_.end()) return &*found;
    if (required) throw std::invalid_argument(name_ + ": field '" + field + "' is missing");
    return nullptr;
  }
  const Json& json_;
  std::string name_;
  std::set<std::string> asked_;
};

/// "ratio >= 1.5", "ratio <= 0.5", "ratio between 1.5 and 2", the same of a value, or a label of the metric.
ClaimRule parse_rule(const std::string& text, const std::string& metric, const std::string& row) {
  const std::vector<std::string>& labels = kLabels.at(metric);
  ClaimRule rule{.text = text, .label = "", .low = {}, .high = {}, .of = ""};
  if (std::find(labels.begin(), labels.end(), text) != labels.end()) {
    rule.label = text;
    return rule;
  }
  static const std::regex bound(R"((ratio|value) (>=|<=) ([0-9.]+))"),
      between(R"((ratio|value) between ([0-9.]+) and ([0-9.]+))"), number(R"([0-9]+(\.[0-9]+)?)");
  std::smatch match;
  const auto read = [&](const std::string& word) {
    if (!std::regex_match(word, number))
      throw std::invalid_argument(row + ": rule '" + text + "': '" + word + "' is no number");
    return std::stod(word);
  };
  if (std::regex_match(text, match, bound)) {
    (match[2] == ">=" ? rule.low : rule.high) = read(match[3]);
  } else if (std::regex_match(text, match, between)) {
    rule.low = read(match[2]), rule.high = read(match[3]);
    if (*rule.low >= *rule.high)
      throw std::invalid_argument(row + ": rule '" + text + "': the first bound must be the smaller one");
  }
  const bool bounded = metric == "speed" || metric == "memory" || metric == "note";
  if (match.empty() || !bounded || (match[1] == "value" && metric != "note"))
    throw std::invalid_argument(row + ": rule '" + text + "' is none of metric " + metric + " (" + joined(labels) +
                                (labels.empty() || !bounded ? "" : ", ") +
                                (bounded ? "ratio >= X, ratio <= X, ratio between X and Y" : "") +
                                (metric == "note" ? ", or the same of value" : "") + ")");
  rule.of = match[1];
  return rule;
}

ClaimTest parse_test(const Json& json, const Claim& claim, const std::string& name) {
  Row row(json, name);
  ClaimTest test{.case_name = row.text("case"), .technique = row.text("technique"), .note = "", .against = ""};
  if (claim.metric == "note") {
    test.note = row.text("note");
    test.against = row.text("against", false);
    if (test.against.empty() != (claim.rule.of == "value"))
      throw std::invalid_argument(name + ": a rule of a ratio needs 'against', one of a value must not have it");
  }
  row.done();
  return test;
}

Claim parse_claim(const Json& json, const std::string& name, const std::set<std::string>& sources) {
  Row row(json, name);
  Claim claim;
  claim.id = row.text("id"), claim.source = row.text("source"), claim.text = row.text("claim");
  claim.lesson = row.text("lesson"), claim.metric = row.text("metric");
  if (!sources.contains(claim.source))
    throw std::invalid_argument(name + ": source '" + claim.source + "' is none of the sources");
  if (!kLabels.contains(claim.metric))
    throw std::invalid_argument(name + ": metric '" + claim.metric +
                                "' is none of agreement, memory, note, quality, speed");
  claim.rule = parse_rule(row.text("rule"), claim.metric, name);
  const std::string device = row.text("device");
  if (device != "any" && device != "gpu" && device != "server")
    throw std::invalid_argument(name + ": device '" + device + "': expected any, gpu or server");
  claim.gpu = device == "gpu";
  claim.server = device == "server";
  for (const Json& test : row.list("tests"))
    claim.tests.push_back(parse_test(test, claim, name + ": test " + std::to_string(claim.tests.size() + 1)));
  row.done();
  return claim;
}

Elsewhere parse_elsewhere(const Json& json, const std::string& name) {
  Row row(json, name);
  Elsewhere one{.id = row.text("id"),
                .lesson = row.text("lesson"),
                .what = row.text("what"),
                .hardware = row.text("hardware"),
                .model = row.text("model"),
                .number = row.text("number"),
                .source = row.text("source"),
                .url = row.text("url"),
                .date = row.text("date"),
                .checked = row.text("checked")};
  row.done();
  if (!one.url.starts_with("https://"))
    throw std::invalid_argument(name + ": url '" + one.url + "': expected https://");
  static const std::regex day("20[0-9]{2}-[01][0-9]-[0-3][0-9]"),
      date("(19|20)[0-9]{2}(-[01][0-9](-[0-3][0-9])?)?|undated");
  if (!std::regex_match(one.checked, day))
    throw std::invalid_argument(name + ": checked '" + one.checked + "': expected YYYY-MM-DD");
  if (!std::regex_match(one.date, date))
    throw std::invalid_argument(name + ": date '" + one.date + "': expected YYYY, YYYY-MM, YYYY-MM-DD or undated");
  return one;
}

/// "claim 'quarter'", or by its place when it has no id.
std::string row_name(const std::string& kind, const Json& json, size_t index) {
  const bool named = json.is_object() && json.contains("id") && json.at("id").is_string();
  return kind + " " + (named ? "'" + one_line(json.at("id").get<std::string>()) + "'" : std::to_string(index + 1));
}

/// Ids are parts of links.
void keep_id(std::set<std::string>& ids, const std::string& id, const std::string& name) {
  static const std::regex allowed("[a-zA-Z0-9_-]+");
  if (!std::regex_match(id, allowed)) throw std::invalid_argument(name + ": an id has letters, digits, - and _ alone");
  if (!ids.insert(id).second) throw std::invalid_argument(name + ": this id is there twice");
}

}  // namespace

Ledger parse_ledger(const std::string& text, const std::string& name) {
  try {
    const Json json = Json::parse(text);
    Row top(json, "the ledger");
    Ledger ledger;
    std::set<std::string> sources, ids;
    for (const Json& one : top.list("sources")) {
      const std::string row = row_name("source", one, ledger.sources.size());
      Row source(one, row);
      ledger.sources.push_back({source.text("id"), source.text("title")});
      source.done();
      keep_id(sources, ledger.sources.back().id, row);
    }
    for (const Json& one : top.list("claims")) {
      const std::string row = row_name("claim", one, ledger.claims.size());
      ledger.claims.push_back(parse_claim(one, row, sources));
      keep_id(ids, ledger.claims.back().id, row);
    }
    for (const Json& one : top.list("published")) {
      const std::string row = row_name("published", one, ledger.elsewhere.size());
      ledger.elsewhere.push_back(parse_elsewhere(one, row));
      keep_id(ids, ledger.elsewhere.back().id, row);
    }
    top.done();
    return ledger;
  } catch (const Json::exception& error) {
    throw FileError(name + ": " + one_line(error.what()));
  } catch (const std::invalid_argument& error) {
    throw FileError(name + ": " + error.what());
  }
}

Ledger read_ledger(const std::filesystem::path& file) { return parse_ledger(read_text(file), file.string()); }

LessonParts described_parts(const std::filesystem::path& description) {
  const std::string text = read_text(description);
  try {
    const Json json = Json::parse(text);
    LessonParts parts;
    for (const Json& technique : json.at("techniques")) parts.variants.insert(technique.get<std::string>());
    for (const char* kind : {"cases", "trainings", "surveys"}) {
      for (const Json& one : json.value(kind, Json::array())) {
        parts.cases.insert(one.at("name").get<std::string>());
        if (kind == std::string("surveys")) parts.surveys.insert(one.at("name").get<std::string>());
        if (kind == std::string("trainings"))
          for (const Json& run : one.value("variants", Json::array())) parts.variants.insert(run.get<std::string>());
      }
    }
    return parts;
  } catch (const Json::exception& error) {
    throw FileError(description.string() + ": " + one_line(error.what()) + "; build again with: ./tenfold setup");
  }
}

void check_names(const Ledger& ledger, const std::string& file, const std::map<std::string, LessonParts>& lessons) {
  const auto refuse = [&](const std::string& row, const std::string& what, const std::string& word,
                          const std::vector<std::string>& known) {
    const std::string guess = nearest(word, known);
    throw FileError(file + ": " + row + ": " + what + " '" + word + "'" +
                    (guess.empty() ? "" : "; did you mean '" + guess + "'?"));
  };
  const auto parts_of = [&](const std::string& row, const std::string& lesson) -> const LessonParts& {
    const auto found = lessons.find(lesson);
    if (found != lessons.end()) return found->second;
    std::vector<std::string> known;
    for (const auto& [name, parts] : lessons) known.push_back(name);
    refuse(row, "there is no lesson", lesson, known);
    throw FileError(file);  // not reached
  };
  for (const Elsewhere& one : ledger.elsewhere) parts_of("published '" + one.id + "'", one.lesson);
  for (const Claim& claim : ledger.claims) {
    const std::string row = "claim '" + claim.id + "'";
    const LessonParts& parts = parts_of(row, claim.lesson);
    if (parts.cases.empty()) continue;  // not built
    for (const ClaimTest& test : claim.tests) {
      if (!parts.cases.contains(test.case_name))
        refuse(row, claim.lesson + " has no case", test.case_name, {parts.cases.begin(), parts.cases.end()});
      const bool survey = parts.surveys.contains(test.case_name);
      if (survey && claim.metric != "note")
        throw FileError(file + ": " + row + ": case '" + test.case_name +
                        "' trains nothing, so only its notes can be judged");
      if (!survey && !parts.variants.contains(test.technique))
        refuse(row, claim.lesson + " has no technique", test.technique, {parts.variants.begin(), parts.variants.end()});
    }
  }
}

std::vector<const Elsewhere*> elsewhere_of(const Ledger& ledger, const std::string& lesson) {
  std::vector<const Elsewhere*> of_lesson;
  for (const Elsewhere& entry : ledger.elsewhere) {
    if (entry.lesson == lesson) of_lesson.push_back(&entry);
  }
  return of_lesson;
}

}  // namespace tenfold
