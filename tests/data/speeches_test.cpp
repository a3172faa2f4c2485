// Speeches: how the texts print them, and how many there are.
#include "common/data/speeches.h"
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <sstream>

#include "scratch.h"

namespace tenfold {
namespace {

using Said = std::vector<std::pair<std::string, std::string>>;

Said said(const std::string& play, const std::string& text) {
  Said out;
  for (const Speech& speech : speeches_of({play, text})) out.emplace_back(speech.speaker, speech.text);
  return out;
}

size_t word_count(const std::string& text) {
  std::istringstream in(text);
  size_t count = 0;
  for (std::string word; in >> word;) ++count;
  return count;
}

std::vector<Speech> all_speeches() {
  std::vector<Speech> all = speeches(true), rest = speeches(false);
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

TEST(Speeches, BeginAtANameAndEndAtTheNext) {
  EXPECT_EQ(
      said("macbeth",
           "PERSONS\n\nDUNCAN, King of Scotland.\nMALCOLM.\n\nSCENE: Scotland.\n\n\nACT I.\n\nSCENE I. A heath.\n\n"
           "[Enter MACBETH.]\n\nMACBETH.\nSo foul and\n  fair a day  \n\nFIRST WITCH.\nAll hail!\n\nBOTH MURDERERS\nMy "
           "lord.\n"),
      (Said{{"MACBETH", "So foul and\nfair a day"}, {"FIRST WITCH", "All hail!"}, {"BOTH MURDERERS", "My lord."}}));
}

TEST(Speeches, GoOnOverDirections) {
  EXPECT_EQ(said("macbeth",
                 "ACT I\n\nROSS. [Aside.]\nOne.\n\n[Exit\nSoldier, attended.]\n\nTwo. [To him.] Three.\n\nSCENE "
                 "II.\n\nNobody says this.\n"),
            (Said{{"ROSS", "One.\nTwo.  Three."}}));
  // Never closed, closed by a brace, one in the other.
  EXPECT_EQ(
      said("macbeth",
           "ACT I\n\nROSS.\nOne. [Exit Ross.\nTwo.\n\nMALCOLM. {Aside.]\nThree\n\n[Enter A [with B], C.}\n\nfour.\n"),
      (Said{{"ROSS", "One.\nTwo."}, {"MALCOLM", "Three\nfour."}}));
}

TEST(Speeches, ANameMayStandBeforeItsWords) {
  EXPECT_EQ(said("macbeth", "ACT I\n\nOLD MAN. So, now they come:--\nLook!\n"),
            (Said{{"OLD MAN", "So, now they come:--\nLook!"}}));
}

TEST(Speeches, SomePlaysPrintShortNames) {
  const std::string text =
      "ACT I.\n\nHam.\nWords, words.\n\nRos. and Guil.\nMy lord!\n\n1 Clown.\nA pickaxe.\n\n[Exit.]\n\nO, "
      "Ophelia.\nNothing.\n";
  EXPECT_EQ(said("hamlet", text), (Said{{"Ham", "Words, words."},
                                        {"Ros. and Guil", "My lord!"},
                                        {"1 Clown", "A pickaxe.\nO, Ophelia.\nNothing."}}));
  EXPECT_TRUE(said("macbeth", text).empty()) << "where names are in capitals, a short verse is no name";
}

TEST(Speeches, ProloguesAreSaidBySomebody) {
  EXPECT_EQ(said("tempest", "ACT 1\n\nARIEL.\nSir.\n\nEPILOGUE\n\nNow my charms are all o'erthrown,\n"),
            (Said{{"ARIEL", "Sir."}, {"EPILOGUE", "Now my charms are all o'erthrown,"}}));
  EXPECT_EQ(said("henry_v", "PROLOGUE.\n\n[Enter CHORUS.]\n\nCHORUS.\nO for a Muse of fire\n"),
            (Said{{"CHORUS", "O for a Muse of fire"}}));
}

TEST(Speeches, OddTextsGiveNothing) {
  for (const char* text : {"", "\n\n\n", "ACT I.", "ACT I.\n\nMACBETH.", "ACT I.\n\n[", "ACT I.\n\n]]}", "words", ". ",
                           "ACT I.\n\n. .\n\n...\n"})
    EXPECT_TRUE(said("macbeth", text).empty()) << text;
  EXPECT_TRUE(said("sonnets", "ACT I.\n\nMACBETH.\nWords.\n").empty()) << "no play";
}

// 27,671 when the three plays are left out whose speakers are not in capitals (Hamlet, Lear, Romeo and Juliet).
TEST(Speeches, AreAsManyAsThereAre) {
  const std::vector<Speech> all = all_speeches();
  EXPECT_EQ(all.size(), 30706u);
  std::map<std::string, int> plays;
  std::map<Genre, int> genres;
  std::vector<size_t> lengths;
  for (const Speech& speech : all) {
    ++plays[speech.play];
    ++genres[speech.genre];
    lengths.push_back(word_count(speech.text));
    ASSERT_GT(lengths.back(), 0u) << speech.play << " " << speech.speaker;
    ASSERT_EQ(speech.text.find_first_of("[]{}\r"), std::string::npos) << speech.play << ": " << speech.text;
    ASSERT_FALSE(speech.speaker.empty());
  }
  EXPECT_EQ(plays.size(), 37u);
  EXPECT_EQ(plays["hamlet"], 1131);
  EXPECT_EQ(plays["macbeth"], 647);
  EXPECT_EQ(plays["midsummer_nights_dream"], 502);
  EXPECT_EQ(genres[Genre::comedy] + genres[Genre::tragedy] + genres[Genre::history], 30706);
  std::ranges::sort(lengths);
  const size_t total = std::accumulate(lengths.begin(), lengths.end(), size_t{0});
  EXPECT_EQ(lengths[lengths.size() / 2], 13u);
  EXPECT_EQ(lengths[lengths.size() * 95 / 100], 93u);
  EXPECT_EQ(lengths.back(), 587u) << "Berowne on love";
  // Padding each to the longest would waste nearly everything.
  EXPECT_NEAR(1 - static_cast<double>(total) / static_cast<double>(lengths.size() * lengths.back()), 0.956, 0.0005);
}

TEST(Speeches, KnownOnesAreThere) {
  const std::vector<Speech> all = all_speeches();
  const auto find = [&](const std::string& play, const std::string& words) {
    const auto found = std::ranges::find_if(
        all, [&](const Speech& one) { return one.play == play && one.text.find(words) != std::string::npos; });
    return found == all.end() ? Speech{} : *found;
  };
  EXPECT_EQ(find("hamlet", "To be, or not to be,").speaker, "Ham");
  EXPECT_EQ(find("hamlet", "Who's there?").speaker, "Ber");
  EXPECT_EQ(find("richard_iii", "A horse! a horse! my kingdom for a horse!").speaker, "KING RICHARD");
  EXPECT_EQ(find("henry_v", "Once more unto the breach").speaker, "KING HENRY");
  EXPECT_EQ(find("midsummer_nights_dream", "the lunatic, the lover").speaker +
                find("midsummer_nights_dream", "The lunatic, the lover").speaker,
            "THESEUS");
  EXPECT_EQ(find("henry_v", "Once more unto the breach").genre, Genre::history);
  EXPECT_EQ(find("hamlet", "Who's there?").genre, Genre::tragedy);
}

TEST(Speeches, HoldWholePlaysOut) {
  std::set<std::string> train, test;
  for (const Speech& speech : speeches(true)) train.insert(speech.play);
  for (const Speech& speech : speeches(false)) test.insert(speech.play);
  EXPECT_EQ(test, std::set<std::string>(kHeldOutPlays.begin(), kHeldOutPlays.end()));
  EXPECT_EQ(train.size() + test.size(), 37u);
  for (const std::string& play : test) EXPECT_FALSE(train.contains(play));
}

}  // namespace
}  // namespace tenfold
