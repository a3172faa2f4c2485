#pragma once
// What a run that was stopped or killed leaves behind: used or removed at the next call. Nothing measured gets lost.

#include <filesystem>
#include <string>

namespace tenfold::cli {

/// A lock on a folder, given up when this process ends, however it ends. Not inherited by children.
class FolderLock {
 public:
  enum Kind { shared, exclusive };
  /// Never waits; held() says whether it could be had.
  FolderLock(const std::filesystem::path& folder, Kind kind);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  bool held() const { return held_; }

 private:
  int descriptor_ = -1;
  bool held_ = false;
};

inline const std::string kTemporaryName = "tenfold-ranks-";

/// Removes folders "tenfold-ranks-*" of this user in the temporary folder whose driver was killed.
void remove_left_folders();

/// FILE.earlier, where a result waits while its lesson is measured again.
std::filesystem::path earlier_of(const std::filesystem::path& file);

/// Results in a folder whose run was killed: what had been moved aside is put back where nothing newer lies, and files
/// that were half written go. Does nothing while another driver writes to this folder.
void tidy_results(const std::filesystem::path& folder);

/// Before a lesson is measured again into `file`: what is there becomes FILE.earlier; `keep` leaves it in place, too. A
/// fuller one that lies there from a run that was stopped stays instead.
void set_aside(const std::filesystem::path& file, bool keep);

/// After it: a new result that is whole replaces the earlier one, and of one that was `stopped` the earlier one stays
/// as FILE.earlier if it holds more cases. Without a new result the earlier one is put back. Returns what to tell the
/// user, if anything.
std::string settle(const std::filesystem::path& file, bool stopped);

}  // namespace tenfold::cli
