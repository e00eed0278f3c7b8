// Columns for people. In: rows of cells, the first one the headings. Out: aligned lines.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace jacserve::client {

class Table {
 public:
  void Add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  std::string Text() const {
    std::vector<size_t> widths;
    for (const auto& row : rows_) {
      widths.resize(std::max(widths.size(), row.size()));
      for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string text;
    for (const auto& row : rows_) {
      std::string line;
      for (size_t i = 0; i < row.size(); ++i) {
        line += row[i];
        if (i + 1 < row.size()) line.append(widths[i] - row[i].size() + 2, ' ');
      }
      text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return text;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace jacserve::client
