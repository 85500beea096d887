#include "runtime/build_fingerprint.h"

#include <elf.h>
#include <link.h>
#include <sys/stat.h>

#include <cstring>

#include "device/targets/target.h"
#include "runtime/plan_io.h"

namespace nax {
namespace {

struct Search {
  uintptr_t inside;      // an address in the wanted object
  std::string build_id;  // hex
  std::string path;
};

int visit(dl_phdr_info* info, size_t, void* user) {
  auto* search = static_cast<Search*>(user);
  bool ours = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
    ours |= segment.p_type == PT_LOAD && search->inside >= begin && search->inside < begin + segment.p_memsz;
  }
  if (!ours) return 0;
  search->path = info->dlpi_name && *info->dlpi_name ? info->dlpi_name : "/proc/self/exe";
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const char* at = reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr);
    const char* end = at + segment.p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      ElfW(Nhdr) note;
      std::memcpy(&note, at, sizeof note);
      const char* name = at + sizeof note;
      const char* payload = name + ((note.n_namesz + 3) & ~3u);
      if (payload + note.n_descsz > end) break;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
        constexpr char kHex[] = "0123456789abcdef";
        for (uint32_t b = 0; b < note.n_descsz; ++b) {
          const auto byte = static_cast<unsigned char>(payload[b]);
          search->build_id += kHex[byte >> 4];
          search->build_id += kHex[byte & 15];
        }
        return 1;
      }
      at = payload + ((note.n_descsz + 3) & ~3u);
    }
  }
  return 1;
}

}  // namespace

std::string build_fingerprint() {
  Search search{reinterpret_cast<uintptr_t>(&build_fingerprint), "", ""};
  dl_iterate_phdr(visit, &search);
  if (search.build_id.empty()) {
    struct stat file {};
    if (stat(search.path.c_str(), &file) == 0)
      search.build_id = std::to_string(file.st_size) + "." + std::to_string(file.st_mtim.tv_sec) + "." +
                        std::to_string(file.st_mtim.tv_nsec);
  }
  return "nax build " + search.build_id + " plan " + std::to_string(kPlanFormatVersion) + " targets " +
         target_tables_hash().hex();
}

}  // namespace nax
