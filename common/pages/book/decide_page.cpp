#include "common/pages/book/decide_page.h"

#include <algorithm>
#include <optional>
#include <regex>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "common/base/files.h"
#include "common/base/text.h"
#include "common/pages/book/chapters.h"
#include "common/pages/book/claims.h"
#include "common/pages/book/dry_cases.h"
#include "common/pages/book/first_screen.h"
#include "common/pages/book/links.h"
#include "common/pages/rows/case_words.h"
#include "common/pages/rows/headlines.h"
#include "common/pages/rows/markdown_table.h"
#include "common/pages/rows/note_words.h"
#include "common/pages/rows/quality_words.h"
#include "common/pages/rows/references.h"
#include "common/pages/rows/verdict_words.h"
#include "common/result/code_hash.h"
#include "common/result/statistics.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;

/// The row that stands for a lesson on one machine, or on a card that is not there.
struct Outcome {
  VerdictRow row;
  std::string place;  ///< "2x-intel-xeon", "H100"
  bool dry = false, stale = false;
  bool earlier_model = false;  ///< of time
  bool speed_modelled = true;  ///< false where the lesson's page says that the model cannot tell
  bool is_mistake = false;     ///< called one on this page, whatever the lesson calls it

  const Verdict& verdict() const { return *row.row.verdict; }
  /// "*accumulate* against *full batch*, case *gpt*"; what is compared as a mistake is called one.
  std::string compared() const {
    const auto& expected = row.row.variant->expected;
    const bool mistake = is_mistake || (expected && expected->kind == "mistake");
    return (mistake ? "the mistake *" : "*") + markdown_cell(verdict().technique) + "* against *" +
           markdown_cell(row.c->variants.front().name) + "*, case *" + markdown_cell(row.c->name) + "*";
  }
  std::string memory() const {
    std::string text = memory_text(verdict().memory);
    const VariantResult& variant = *row.row.variant;
    if (text == "-") return text;
    return text + (variant.judged_peak ? " " + *variant.judged_peak : "") +
           (variant.environment.contains(kPeakAtLeast) ? " without workspaces" : "");
  }
  /// Whether its speed is a ratio by another model of time than today's.
  bool has_earlier_speed() const {
    return earlier_model && speed_modelled && row.c->preset != "check" && verdict().speed.ratio.has_value();
  }
  /// Of a training its quality first. Without the interval where a column has to be narrow, and of a modelled ratio,
  /// whose interval would be the host's noise alone.
  std::string speed(bool interval) const {
    if (verdict().quality && !interval) return quality_in_words();
    if (verdict().quality)
      return quality_verdict_text(*verdict().quality, row.c->metric->better) + "; time to it " +
             time_to_quality_text(verdict());
    const SpeedResult& result = verdict().speed;
    if (dry && row.c->preset == "check") return "not timed";
    if (dry && !speed_modelled) return result.ratio ? "see its page" : "not modelled";
    if (dry && !result.ratio) return "not modelled";
    return dry ? ratio_text(result) + host_mark(*row.row.variant, row.c->variants.front())
               : (interval ? speed_text(result) : ratio_text(result));
  }

 private:
  /// "validation loss 0.507 instead of 0.502 (lower is better): NOT WORSE; time to an equal one FASTER 2.96x".
  std::string quality_in_words() const {
    const Metric& metric = *row.c->metric;
    const auto of = [&](const VariantResult& variant) {
      const auto values = variant.quality.find(metric.name);
      return values == variant.quality.end() ? std::string("-") : human_number(median(values->second));
    };
    const std::string unit = metric.unit.empty() ? "" : " " + metric.unit;
    const bool timed = no_time_because(verdict()).empty() && verdict().speed.ratio;
    return metric.name + " " + of(*row.row.variant) + " instead of " + of(row.c->variants.front()) + unit + " (" +
           to_string(metric.better) + " is better): " + quality_label(*verdict().quality, metric.better) + trained() +
           (timed ? "; time to an equal one " + ratio_text(verdict().speed) : "");
  }
  /// ", after 39.6 % of the updates instead of 100 %": what a shorter training saved, where its length was noted.
  std::string trained() const {
    constexpr const char* kTrained = "trained";
    const auto &own = row.row.variant->notes, &base = row.c->variants.front().notes;
    const auto of_own = own.find(kTrained), of_base = base.find(kTrained);
    if (of_own == own.end() || of_base == base.end() || of_own->second.value == of_base->second.value) return "";
    return ", after " + note_text(kTrained, of_own->second) + " instead of " + human_number(of_base->second.value);
  }
};

/// A name as it stands in a directive, whose words blanks divide: "packed,_one_kernel".
std::string as_word(std::string name) {
  std::ranges::replace(name, ' ', '_');
  return name;
}

/// The row of a case and a technique, "speeches/packed,_one_kernel"; without it the row that stands for the lesson.
/// Nothing where that was not measured: another row of it would say something else. Of a GPU that is there any row is
/// better than none, as few cases have run on one; what is shown names its case.
std::optional<Outcome> outcome_of(const Result& result, const std::string& hash_now, const std::string& chosen) {
  const bool is_dry = result.machine.id.starts_with(kDryMachine);
  if (is_dry && !chosen.empty()) {
    for (VerdictRow& row : verdict_rows({&result, 1})) {
      if (as_word(row.c->name) + "/" + as_word(row.row.verdict->technique) == chosen &&
          row.row.variant->status != "skipped")
        return Outcome{std::move(row), dry_card(result), true, result.code_hash != hash_now};
    }
    return std::nullopt;
  }
  auto headline = headline_of(result);
  if (!headline || headline->row.variant->status == "skipped") return std::nullopt;
  const auto& named = result.headline;
  const bool on_gpu = !is_dry && is_on_gpu(*headline->c);
  if (named && !on_gpu &&
      (named->case_name != headline->c->name || named->technique != headline->row.verdict->technique))
    return std::nullopt;
  return Outcome{std::move(*headline), is_dry ? dry_card(result) : result.machine.id, is_dry,
                 result.code_hash != hash_now};
}

/// Cards with less memory first, then the machines, those of results/REFERENCE first.
std::vector<Outcome> outcomes_of(const Page& page, const std::string& lesson, const std::string& chosen) {
  std::vector<const Result*> cards, machines;
  for (const Result& result : page.dry) {
    if (result.lesson == lesson && !result.machine.gpus.empty()) cards.push_back(&result);
  }
  std::ranges::stable_sort(cards, {}, [](const Result* card) { return card->machine.gpus.front().memory_bytes; });
  for (const Result& result : page.published) {
    if (result.lesson == lesson) machines.push_back(&result);
  }
  const std::vector<std::string> preferred = reference_machines(page.root);
  std::ranges::stable_sort(machines, {},
                           [&](const Result* result) { return std::ranges::find(preferred, result->machine.id); });
  cards.insert(cards.end(), machines.begin(), machines.end());
  const std::string hash_now = code_hash(page.root / "lessons" / lesson);
  std::vector<Outcome> outcomes;
  for (const Result* const result : cards) {
    auto outcome = outcome_of(*result, hash_now, chosen);
    if (!outcome) continue;
    outcome->earlier_model = is_of_earlier_model(page, *result);
    outcomes.push_back(std::move(*outcome));
  }
  return outcomes;
}

/// Each text once, with the places that say it: "SMALLER 0.692x on A100, H100; SMALLER 0.722x on T4".
template <class Text>
std::string by_text(const std::vector<Outcome>& outcomes, bool dry, const Text& text_of, bool of_speed = false) {
  std::vector<std::pair<std::string, std::string>> texts;
  for (const Outcome& outcome : outcomes) {
    const std::string text = text_of(outcome);
    if (outcome.dry != dry || text == "-") continue;
    auto same = std::ranges::find(texts, text, &std::pair<std::string, std::string>::first);
    if (same == texts.end()) same = texts.insert(texts.end(), {text, ""});
    same->second += (same->second.empty() ? "" : ", ") + outcome.place +
                    earlier(outcome.stale, of_speed && outcome.has_earlier_speed()) +
                    (outcome.compared() == outcomes.front().compared() ? "" : " (" + outcome.compared() + ")");
  }
  std::vector<std::string> parts;
  for (const auto& [text, places] : texts) parts.push_back(markdown_cell(text) + " on " + places);
  return joined(parts, "; ");
}

/// "counted: ...; measured: ..." as one item of a list.
std::string sources_item(const char* what, const char* on_cards, const std::string& dry, const std::string& measured) {
  if (dry.empty() && measured.empty()) return "";
  return std::string("- *") + what + "*" + (dry.empty() ? "" : std::string(", ") + on_cards + ": " + dry + ".") +
         (measured.empty() ? "" : std::string(dry.empty() ? ", measured: " : " Measured: ") + measured + ".") + "\n";
}

std::string elsewhere_item(const Ledger& ledger, const std::string& lesson) {
  const std::vector<const Elsewhere*> of_lesson = elsewhere_of(ledger, lesson);
  if (of_lesson.empty()) return "";
  const Elsewhere& first = *of_lesson.front();
  const size_t more = of_lesson.size() - 1;
  return "- *Published elsewhere*, not by us: " + markdown_cell(first.number) + " (" + markdown_cell(first.what) +
         "; " + markdown_cell(first.hardware) + "; " + markdown_cell(first.model) + "; [" +
         markdown_cell(first.source) + "](" + first.url + "))" +
         (more == 0 ? "" : "; " + std::to_string(more) + " more on the lesson's page") + ".\n";
}

struct Lesson {
  const LessonEntry* entry;
  FirstScreen screen;
  std::vector<Outcome> outcomes;
  std::string link;
  std::string beside = {};                ///< another technique of the same case, whose numbers stand below
  std::optional<std::string> noted = {};  ///< what a survey noted, which stands in place of memory and speed
};

/// "search first" of the directive's "search_first".
std::string as_name(std::string word) {
  std::ranges::replace(word, '_', ' ');
  return word;
}

/// Of `survey` on the machine that comes first what each look noted under `note`: "measured on 2x-intel-xeon,
/// *rate by batch*, largest / best: convnet 0.826 x, gpt 1 x". Empty where nobody published it.
std::string noted_text(const Page& page, const std::string& lesson, const std::string& survey,
                       const std::string& note) {
  for (const Result& result : page.references) {
    if (result.lesson != lesson) continue;
    for (const CaseResult& c : result.cases) {
      if (c.name != survey) continue;
      std::vector<std::string> looks;
      for (const VariantResult& look : c.variants) {
        const auto found = look.notes.find(note);
        if (found != look.notes.end()) looks.push_back(markdown_cell(look.name + " " + note_text(found->second)));
      }
      if (looks.empty())
        throw std::invalid_argument("decide: '" + survey + "' of " + lesson + " noted no '" + note + "'");
      const bool stale = result.code_hash != code_hash(page.root / "lessons" / lesson);
      return "measured on " + result.machine.id + (stale ? ", earlier code" : "") + ":<br>*" + markdown_cell(survey) +
             "*, " + markdown_cell(note) + ": " + joined(looks);
    }
    throw std::invalid_argument("decide: " + lesson + " has no survey '" + survey + "'");
  }
  return "";
}

/// `word` is a lesson's number, and behind it what its row needs:
///   15:speeches/packed,_one_kernel     on cards another row than the lesson's own stands for it
///   59~loop_over_experts               the same of another technique of its case stands below
///   20#rate_by_batch#largest_/_best    what a survey noted stands in place of memory and speed
///   33=memory                          the lesson's page says that the model cannot tell its speed
///   43=mistake                         what the row compares is what to avoid
Lesson lesson_of(const Page& page, const std::string& word) {
  static const std::regex kWord(
      R"((\d+)(?::([^~#]+?/[^~#]+?))?(?:~([^#]+?))?(?:#([^#]+)#([^#]+?))?(=memory|=mistake)?)");
  std::smatch parts;
  if (!std::regex_match(word, parts, kWord))
    throw std::invalid_argument("decide: '" + word +
                                "' is neither a lesson's number nor one with ':CASE/TECHNIQUE', '~TECHNIQUE', "
                                "'#SURVEY#NOTE', '=memory' or '=mistake'");
  const std::string number = parts[1], chosen = parts[2];
  const auto entry =
      std::ranges::find(page.lessons, number, [](const LessonEntry& of) { return number_of_name(of.name); });
  if (entry == page.lessons.end()) throw std::invalid_argument("decide: there is no lesson '" + number + "'");
  const fs::path file = page.root / "lessons" / entry->name / "README.md";
  FirstScreen screen;
  try {
    screen = first_screen_of(read_text(file));
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument("decide: " + file.string() + ": " + error.what());
  }
  for (std::string* const cell : {&screen.use, &screen.skip, &screen.pay, &screen.line})
    *cell = relinked(*cell, file, page.path);
  std::vector<Outcome> outcomes = outcomes_of(page, entry->name, chosen);
  if (!chosen.empty() && !page.dry.empty() && std::ranges::none_of(outcomes, &Outcome::dry))
    throw std::invalid_argument("decide: no card has the row of '" + word + "'");
  for (Outcome& outcome : outcomes) {
    outcome.speed_modelled = parts[6] != "=memory";
    outcome.is_mistake = parts[6] == "=mistake";
  }
  std::optional<std::string> noted;
  if (parts[4].matched) noted = noted_text(page, entry->name, as_name(parts[4]), as_name(parts[5]));
  return {.entry = &*entry,
          .screen = screen,
          .outcomes = std::move(outcomes),
          .link = "[" + number + " " + markdown_cell(entry->title) + "](" +
                  file.lexically_relative(page.path.parent_path()).generic_string() + ")",
          .beside = as_name(parts[3]),
          .noted = noted};
}

/// "<br>*loop over experts* in the same case: memory SMALLER 0.370x, speed FASTER 4.73x": what the reader would compare
/// with, where the case's baseline is something else.
std::string beside_text(const Outcome& shown, const std::string& technique) {
  if (technique.empty()) return "";
  for (VerdictRow& row : verdict_rows({shown.row.result, 1})) {
    if (row.c != shown.row.c || row.row.verdict->technique != technique) continue;
    Outcome other = shown;
    other.row = std::move(row);
    return "<br>*" + markdown_cell(technique) + "* in the same case: memory " + markdown_cell(other.memory()) +
           ", speed " + markdown_cell(other.speed(/*interval=*/false));
  }
  throw std::invalid_argument("decide: the case has no technique '" + technique + "'");
}

/// "<br>others: [1.41x](address), throughput": what a reader without such a card can hold beside our number.
std::string others_text(const Ledger& ledger, const std::string& lesson) {
  const std::vector<const Elsewhere*> of_lesson = elsewhere_of(ledger, lesson);
  if (of_lesson.empty()) return "";
  const Elsewhere& first = *of_lesson.front();
  return "<br>others: [" + markdown_cell(first.number) + "](" + first.url + "), " + markdown_cell(first.what);
}

/// What a machine measured of the card's row, to be told where the card's results have no speed. Nothing where it has
/// decided nothing, and nothing of lessons on many devices: on a CPU these share its cores and its memory.
std::optional<Outcome> stand_in(const Outcome& machine, const Outcome& card) {
  static const std::set<std::string> kDecided = {"FASTER", "SLOWER", "SAME"};
  const bool has_no_speed = card.row.c->preset == "check" || !card.verdict().speed.ratio;
  if (machine.dry || !card.dry || card.verdict().quality || !has_no_speed ||
      chapter_of(card.row.result->lesson) == "Many devices" || card.row.c->ranks > 1)
    return std::nullopt;
  for (VerdictRow& row : verdict_rows({machine.row.result, 1})) {
    Outcome same = machine;
    same.row = std::move(row);
    if (same.compared() == card.compared() && kDecided.contains(same.verdict().speed.label)) return same;
  }
  return std::nullopt;
}

/// Of the lesson on the card, else on the machine that comes first, which is then named; and what others published.
std::vector<std::string> table_row(const Lesson& lesson, const std::string& card, const Ledger& ledger) {
  const auto on_card = std::ranges::find_if(
      lesson.outcomes, [&](const Outcome& outcome) { return outcome.dry && outcome.place == card; });
  const auto measured_now =
      std::ranges::find_if(lesson.outcomes, [](const Outcome& outcome) { return !outcome.dry && !outcome.stale; });
  const auto machine =
      measured_now == lesson.outcomes.end() ? std::ranges::find(lesson.outcomes, false, &Outcome::dry) : measured_now;
  const auto shown = on_card == lesson.outcomes.end() ? machine : on_card;
  const std::string use = lesson.screen.use + "<br>*Not when* " + lesson.screen.skip;
  const std::string others = others_text(ledger, lesson.entry->name);
  if (lesson.noted) return {lesson.link, use, (lesson.noted->empty() ? "not yet measured" : *lesson.noted) + others};
  if (shown == lesson.outcomes.end())
    return {lesson.link, use, (lesson.entry->survey ? "counts, and times nothing" : "not yet measured") + others};
  const std::optional<Outcome> measured = machine == lesson.outcomes.end() ? std::nullopt : stand_in(*machine, *shown);
  const bool elsewhere = measured.has_value();
  const std::string speed =
      std::string(shown->verdict().quality ? "" : "speed ") +
      (elsewhere ? "measured on " + measured->place + (measured->stale ? ", earlier code" : "") + ": " : "") +
      markdown_cell((elsewhere ? *measured : *shown).speed(/*interval=*/false)) +
      earlier(/*code=*/false, !elsewhere && shown->has_earlier_speed());
  const std::string where = (shown == on_card ? "" : "measured on " + shown->place + ":<br>") +
                            std::string(shown->stale ? "*earlier code:*<br>" : "");
  std::string on_gpus;  // a real card's number beside the modelled one
  for (const Outcome& outcome : lesson.outcomes) {
    if (outcome.dry || &outcome == &*shown || !is_on_gpu(*outcome.row.c)) continue;
    on_gpus += "<br>*measured on " + outcome.place + (outcome.stale ? ", earlier code" : "") + "*" +
               (outcome.compared() == shown->compared() ? "" : ", " + outcome.compared()) + ": memory " +
               markdown_cell(outcome.memory()) + ", speed " + markdown_cell(outcome.speed(/*interval=*/true));
  }
  return {lesson.link + "<br>" + shown->compared(), use,
          where + "memory " + markdown_cell(shown->memory()) + "<br>" + speed + beside_text(*shown, lesson.beside) +
              on_gpus + others};
}

std::string list_of(const Lesson& lesson, const Ledger& ledger) {
  const auto memory = [](const Outcome& outcome) { return outcome.memory(); };
  const auto speed = [](const Outcome& outcome) { return outcome.speed(/*interval=*/true); };
  return "\n**" + lesson.link + "**: " + markdown_cell(lesson.entry->question) +
         "\n\n- *You pay*: " + lesson.screen.pay + ".\n- *In PyTorch*: " + lesson.screen.line + ".\n" +
         sources_item("Memory", "counted", by_text(lesson.outcomes, true, memory),
                      by_text(lesson.outcomes, false, memory)) +
         sources_item("Speed", "modelled", by_text(lesson.outcomes, true, speed, /*of_speed=*/true),
                      by_text(lesson.outcomes, false, speed)) +
         elsewhere_item(ledger, lesson.entry->name);
}

}  // namespace

std::string decide_markdown(const Page& page, const std::vector<std::string>& words) {
  if (words.size() < 2) throw std::invalid_argument("decide needs a card and at least one lesson's number");
  const std::string& card = words[0];
  if (!page.dry.empty() && std::ranges::find(page.dry, card, dry_card) == page.dry.end())
    throw std::invalid_argument("decide: no result is of a " + card + " that is not there");
  const fs::path file = page.root / "docs" / "claims.json";
  const Ledger ledger = fs::exists(file) ? read_ledger(file) : Ledger{};
  std::vector<std::vector<std::string>> rows = {
      {"lesson", "use it when", card + ": memory counted, speed modelled; what others published"}};
  std::string lists;
  for (size_t i = 1; i < words.size(); ++i) {
    const Lesson lesson = lesson_of(page, words[i]);
    rows.push_back(table_row(lesson, card, ledger));
    lists += list_of(lesson, ledger);
  }
  return markdown_table(rows) +
         "\n<details><summary>What each costs, its line in PyTorch, and every machine's numbers</summary>\n" + lists +
         "\n</details>\n";
}

}  // namespace tenfold
