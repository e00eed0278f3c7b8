#include "common/channel.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "common/token.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/client_interceptor.h"

namespace jacserve {
namespace {

namespace interception = grpc::experimental;

class TokenShower : public interception::Interceptor {
 public:
  explicit TokenShower(const std::string& value) : value_(value) {}

  void Intercept(interception::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(interception::InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->emplace(kTokenKey, value_);
    }
    methods->Proceed();
  }

 private:
  const std::string value_;
};

class TokenShowers : public interception::ClientInterceptorFactoryInterface {
 public:
  explicit TokenShowers(const std::string& token) : value_(absl::StrCat(kTokenScheme, token)) {}

  interception::Interceptor* CreateClientInterceptor(interception::ClientRpcInfo*) override {
    return new TokenShower(value_);  // gRPC deletes it with the call
  }

 private:
  const std::string value_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannelWith(const std::string& target, const PeerAccess& access,
                                                               const grpc::ChannelArguments& arguments) {
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (access.tls && !absl::StartsWith(target, "unix:")) {
    ASSIGN_OR_RETURN(credentials, TlsChannelCredentials(*access.tls));
  }
  if (access.token.empty()) return grpc::CreateCustomChannel(target, credentials, arguments);
  std::vector<std::unique_ptr<interception::ClientInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(std::make_unique<TokenShowers>(access.token));
  return interception::CreateCustomChannelWithInterceptors(target, credentials, arguments, std::move(interceptors));
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const std::string& target, const PeerAccess& access) {
  constexpr int kWindowBytes = 2 << 20;  // one chunk
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kWindowBytes);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  arguments.SetMaxReceiveMessageSize(-1);
  return OpenChannelWith(target, access, arguments);
}

}  // namespace jacserve
