#pragma once
// report_template.html, compiled in by common/CMakeLists.txt.

namespace tenfold {

extern const char* const kReportTemplate;

}  // namespace tenfold
