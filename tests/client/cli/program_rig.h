// The program `jacserve` for tests that run it as a user does. In: its arguments. Out: its output and exit code.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "client/cpp/text.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "tests/client/scripted_service.h"

namespace jacserve::client {

namespace fs = std::filesystem;
using nlohmann::json;

inline const Layout& TheLayout() {
  static const Layout layout = TestLayout();
  return layout;
}

struct Ended {
  int code = -1;  // 128 + signal when killed
  std::string out, err;
  json Json() const {
    const size_t line = out.rfind('\n', out.size() - 2);
    return json::parse(out.substr(line == std::string::npos ? 0 : line + 1), nullptr, false);
  }
};

// One run of a program. Output goes to files in `folder`.
class Process {
 public:
  Process(const std::string& program, std::vector<std::string> arguments, const std::string& folder,
          const std::vector<std::string>& environment = {})
      : folder_(folder) {
    arguments.insert(arguments.begin(), program);
    std::vector<char*> words;
    for (std::string& argument : arguments) words.push_back(argument.data());
    words.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ != 0) return;
    for (const std::string& entry : environment) ::putenv(strdup(entry.c_str()));
    if (::freopen((folder + "/stdout").c_str(), "w", stdout) == nullptr) ::_exit(126);
    if (::freopen((folder + "/stderr").c_str(), "w", stderr) == nullptr) ::_exit(126);
    ::execv(words[0], words.data());
    ::_exit(127);
  }

  void Signal(int number) const { ::kill(pid_, number); }

  Ended Wait() const {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return {code, ReadText(folder_ + "/stdout"), ReadText(folder_ + "/stderr")};
  }

 private:
  std::string folder_;
  pid_t pid_ = -1;
};

inline std::string Program() { return std::string(std::getenv("JACSERVE_BIN")) + "/jacserve"; }

class ProgramTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(WriteNpy(folder_ + "/x.npy", MakeArray<float>({2, 4}, std::vector<float>(8, 0.5f))).ok());
    WriteText(folder_ + "/g.onnx", "graph");
  }

  std::vector<std::string> Jacobian(const std::string& server, std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {"jacobian", folder_ + "/g.onnx", "--input", Cat("x=", folder_, "/x.npy")};
    if (!server.empty()) words.insert(words.end(), {"--server", server});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  Ended Run(const std::vector<std::string>& arguments) const { return Process(Program(), arguments, folder_).Wait(); }

  // What a run of the test Jacobian should be compared with.
  std::string Expected(double change) const {
    std::vector<double> value, bias;
    for (int64_t k = 0; k < 6; ++k) value.push_back(TestNumber(-1, k));
    for (int64_t k = 0; k < 18; ++k) bias.push_back(TestNumber(1, k));
    bias[7] += change;
    const std::string path = folder_ + "/expected.npz";
    WriteNpz(path, {{"value", MakeArray<double>({2, 3}, value)}, {"bias", MakeArray<double>({2, 3, 3}, bias)}});
    return path;
  }

  const std::string folder_ = TestFolder();
};

}  // namespace jacserve::client
