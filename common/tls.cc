#include "common/tls.h"

#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"

namespace jacserve {
namespace {

namespace tls = grpc::experimental;

constexpr unsigned kReadAgainSeconds = 1;

template <auto Free>
struct With {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using File = std::unique_ptr<std::FILE, With<std::fclose>>;
using Certificate = std::unique_ptr<X509, With<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, With<EVP_PKEY_free>>;

absl::StatusOr<File> Open(const std::string& path) {
  File file(std::fopen(path.c_str(), "re"));
  if (file == nullptr) return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read: ", strerror(errno)));
  return file;
}

absl::StatusOr<Certificate> ReadCertificate(const std::string& path) {
  ASSIGN_OR_RETURN(const File file, Open(path));
  Certificate certificate(PEM_read_X509(file.get(), nullptr, nullptr, nullptr));
  if (certificate == nullptr) return absl::InvalidArgumentError(absl::StrCat(path, ": holds no certificate in PEM"));
  return certificate;
}

absl::StatusOr<Key> ReadKey(const std::string& path) {
  ASSIGN_OR_RETURN(const File file, Open(path));
  // A password cannot be asked for.
  Key key(PEM_read_PrivateKey(
      file.get(), nullptr, [](char*, int, int, void*) { return 0; }, nullptr));
  if (key == nullptr) return absl::InvalidArgumentError(absl::StrCat(path, ": holds no private key in PEM"));
  return key;
}

std::shared_ptr<tls::CertificateProviderInterface> Provider(const TlsFiles& files) {
  if (files.cert.empty()) return std::make_shared<tls::FileWatcherCertificateProvider>(files.ca, kReadAgainSeconds);
  if (files.ca.empty()) {
    return std::make_shared<tls::FileWatcherCertificateProvider>(files.key, files.cert, kReadAgainSeconds);
  }
  return std::make_shared<tls::FileWatcherCertificateProvider>(files.key, files.cert, files.ca, kReadAgainSeconds);
}

}  // namespace

absl::Status CheckTlsFiles(const TlsFiles& files) {
  if (!files.ca.empty()) RETURN_IF_ERROR(ReadCertificate(files.ca).status());
  if (files.cert.empty() != files.key.empty()) {
    return absl::InvalidArgumentError("a TLS certificate and its key belong together; give both files");
  }
  if (files.cert.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Certificate certificate, ReadCertificate(files.cert));
  ASSIGN_OR_RETURN(const Key key, ReadKey(files.key));
  if (X509_check_private_key(certificate.get(), key.get()) == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(files.key, ": is not the key of the certificate in ", files.cert));
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> TlsServerCredentials(const TlsFiles& files) {
  RETURN_IF_ERROR(CheckTlsFiles(files));
  if (files.cert.empty()) return absl::InvalidArgumentError("TLS needs the server's certificate and its key");
  tls::TlsServerCredentialsOptions options(Provider(files));
  options.watch_identity_key_cert_pairs();
  if (!files.ca.empty()) {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return tls::TlsServerCredentials(options);
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> TlsChannelCredentials(const TlsFiles& files) {
  RETURN_IF_ERROR(CheckTlsFiles(files));
  tls::TlsChannelCredentialsOptions options;
  if (!files.ca.empty() || !files.cert.empty()) options.set_certificate_provider(Provider(files));
  if (!files.ca.empty()) options.watch_root_certs();
  if (!files.cert.empty()) options.watch_identity_key_cert_pairs();
  return tls::TlsCredentials(options);
}

}  // namespace jacserve
