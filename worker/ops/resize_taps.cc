#include "worker/ops/resize_taps.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace jacserve::worker {
namespace {

struct Tap {
  int64_t index;
  double weight;
};

// The input coordinate of output position q.
double Coordinate(const std::string& how, int64_t in, int64_t out, double scale, int64_t q) {
  const auto at = static_cast<double>(q), n = static_cast<double>(in), m = static_cast<double>(out);
  if (how == "asymmetric") return at / scale;
  if (how == "align_corners") {
    // The last output meets the last input, as in torch and ONNX Runtime. Shrunk by a scale, ONNX's own tests take the
    // output's length before it is cut to a whole number.
    const double length = out >= in || std::fabs(scale * n - m) < 1e-6 * m ? m : scale * n;
    return out == 1 ? 0.0 : at * (n - 1) / (length - 1);
  }
  if (how == "pytorch_half_pixel") return out == 1 ? 0.0 : (at + 0.5) / scale - 0.5;
  if (how == "tf_half_pixel_for_nn") return (at + 0.5) / scale;
  if (how == "half_pixel_symmetric") {
    const double adjustment = m / (scale * n), centre = n / 2;
    return centre * (1 - adjustment) + (at + 0.5) / scale - 0.5;
  }
  return (at + 0.5) / scale - 0.5;
}

double Nearest(const std::string& how, double x) {
  if (how == "floor") return std::floor(x);
  if (how == "ceil") return std::ceil(x);
  return how == "round_prefer_ceil" ? std::floor(x + 0.5) : std::ceil(x - 0.5);
}

// The cubic convolution kernel at distance t.
double Cubic(double a, double t) {
  t = std::fabs(t);
  if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  if (t < 2) return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a;
  return 0;
}

std::vector<Tap> Taps(const ResizeModes& modes, int64_t in, int64_t out, double scale, int64_t q) {
  const double x = Coordinate(modes.coordinates, in, out, scale, q);
  const auto inside = [&](double index) {
    return static_cast<int64_t>(std::clamp<double>(index, 0, static_cast<double>(in - 1)));
  };
  if (modes.mode == "nearest") return {{inside(Nearest(modes.nearest, x)), 1.0}};
  const double low = std::floor(x), ratio = x - low;
  std::vector<Tap> taps;
  const auto add = [&](double index, double weight) {
    if (weight != 0) taps.push_back({inside(index), weight});
  };
  if (modes.mode == "linear") {
    add(low, 1 - ratio);
    add(low + 1, ratio);
    return taps;
  }
  double sum = 0;
  for (int k = -1; k <= 2; ++k) {
    const bool outside = low + k < 0 || low + k > static_cast<double>(in - 1);
    const double weight = modes.exclude_outside && outside ? 0.0 : Cubic(modes.cubic_a, ratio - k);
    add(low + k, weight);
    sum += weight;
  }
  if (modes.exclude_outside) {
    for (Tap& tap : taps) tap.weight /= sum;
  }
  return taps;
}

}  // namespace

absl::Status CheckResizeModes(const ResizeModes& modes) {
  const auto one_of = [](const std::string& word, std::initializer_list<const char*> words) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  if (modes.coordinates == "tf_crop_and_resize") {
    return absl::UnimplementedError("a resize of a region of interest (tf_crop_and_resize)");
  }
  if (!one_of(modes.mode, {"nearest", "linear", "cubic"})) {
    return absl::InvalidArgumentError(absl::StrCat("mode ", modes.mode, " is not one"));
  }
  if (!one_of(modes.coordinates, {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel",
                                  "half_pixel_symmetric", "tf_half_pixel_for_nn"})) {
    return absl::InvalidArgumentError(
        absl::StrCat("coordinate_transformation_mode ", modes.coordinates, " is not one"));
  }
  if (!one_of(modes.nearest, {"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"})) {
    return absl::InvalidArgumentError(absl::StrCat("nearest_mode ", modes.nearest, " is not one"));
  }
  return absl::OkStatus();
}

std::vector<ResizeRun> ResizeRuns(const ResizeModes& modes, int64_t in, int64_t out, double scale) {
  // Outputs that repeat their pattern every `period` make longer runs.
  const int64_t period = in > 0 && out > in && out % in == 0 ? out / in : 1;
  std::vector<ResizeRun> runs;
  for (int64_t first = 0; first < std::min(period, out); ++first) {
    std::vector<ResizeRun> open;  // one for each tap of the last position
    for (int64_t q = first; q < out; q += period) {
      const std::vector<Tap> taps = Taps(modes, in, out, scale, q);
      for (size_t t = 0; t < taps.size(); ++t) {
        ResizeRun* run = t < open.size() ? &open[t] : nullptr;
        const bool on = run != nullptr && run->weight == taps[t].weight && run->y_begin + run->count * period == q &&
                        (run->count == 1 || run->x_begin + run->count * run->x_step == taps[t].index);
        if (on) {
          if (run->count == 1) run->x_step = taps[t].index - run->x_begin;
          ++run->count;
          continue;
        }
        if (run != nullptr) runs.push_back(*run);
        const ResizeRun fresh{taps[t].index, 0, q, period, 1, taps[t].weight};
        if (run != nullptr) {
          *run = fresh;
        } else {
          open.push_back(fresh);
        }
      }
    }
    runs.insert(runs.end(), open.begin(), open.end());
  }
  const bool same = in == out && runs.size() == 1 && runs[0].x_begin == 0 && runs[0].weight == 1.0 &&
                    runs[0].count == in && (in == 1 || runs[0].x_step == 1);
  return same ? std::vector<ResizeRun>{} : runs;
}

}  // namespace jacserve::worker
