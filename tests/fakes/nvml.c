/* A stand-in for libnvidia-ml.so.1, with just the calls that the probe makes, so that the real binding can be driven on
 * a machine without a card. What it answers stands in the file named by NVML_FAKE, as lines of KEY<tab>VALUE:
 *
 *   driver, nvml, cuda          versions; cuda as a number, 12020
 *   count                       number of cards; G below is 0 ... count-1
 *   G.uuid G.name G.pci G.index G.memory G.used G.reserved
 *   G.node G.cpus               memory affinity (one node) and CPU affinity (numbers with commas); absent: not supported
 *   G.ancestor.G2               topology level of two cards
 *   G.link.L.pci G.link.L.type  one live NVLink; a link without pci is down
 *   G.mig G.mig.pending G.slots G.slot.S.uuid G.slot.S.name G.slot.S.start      an absent slot is a hole
 *   G.process.P.pid G.process.P.memory                                           memory absent: not available
 *   G.rows.pending G.rows.failed G.retiring G.ecc
 *   fault.FUNCTION, G.fault.FUNCTION, G.fault     a code of nvmlReturn_t, `crash` or `hang`; G.fault: every call on it
 *
 * Layouts and numbers are those of nvml.h. A function that is left out (-DNAME=absent_NAME) is a missing symbol.
 */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GPUS 64
#define SLOTS 8
enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };

typedef struct { int gpu, slot; } device; /* slot -1: the card itself */
typedef struct { char legacy[16]; unsigned domain, bus, dev, id, subsystem; char bus_id[32]; } pci_info;
typedef struct { unsigned long long total, free, used; } memory_v1;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2;
typedef struct { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; } process;
typedef struct { device *card; unsigned id, profile, start, size; } instance_info;

static struct { char *key, *value; } lines[1 << 14];
static int line_count = -1;
static device devices[GPUS][SLOTS + 1];

static void load(void) {
    static char line[4096];
    const char *path = getenv("NVML_FAKE");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) { fprintf(stderr, "NVML_FAKE names no file\n"); exit(70); }
    line_count = 0;
    while (fgets(line, sizeof line, file)) {
        char *tab = strchr(line, '\t');
        if (!tab || line_count == (int)(sizeof lines / sizeof *lines)) { fprintf(stderr, "NVML_FAKE: %s\n", line); exit(70); }
        *tab = 0;
        tab[1 + strcspn(tab + 1, "\n")] = 0;
        lines[line_count].key = strdup(line);
        lines[line_count++].value = strdup(tab + 1);
    }
    fclose(file);
    for (int gpu = 0; gpu < GPUS; gpu++)
        for (int slot = -1; slot < SLOTS; slot++) devices[gpu][slot + 1] = (device){gpu, slot};
}

static const char *get(const char *format, ...) {
    char key[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(key, sizeof key, format, arguments);
    va_end(arguments);
    if (line_count < 0) load();
    for (int i = 0; i < line_count; i++)
        if (!strcmp(lines[i].key, key)) return lines[i].value;
    return NULL;
}

static unsigned long long number(const char *text) { return text ? strtoull(text, NULL, 10) : 0; }

static int fault(const char *text) {
    if (!text) return SUCCESS;
    if (!strcmp(text, "crash")) raise(SIGSEGV);
    if (!strcmp(text, "hang")) for (;;) pause();
    return atoi(text);
}

static int copy(const char *text, char *buffer, unsigned size) {
    if (!text) return NOT_SUPPORTED;
    if (strlen(text) >= size) return INSUFFICIENT_SIZE;
    strcpy(buffer, text);
    return SUCCESS;
}

static int give(const char *text, unsigned *into) {
    *into = number(text);
    return text ? SUCCESS : NOT_SUPPORTED;
}

#define CHECK(text) do { int code = fault(text); if (code) return code; } while (0)
#define SYSTEM() CHECK(get("fault.%s", __func__))
#define ON(d) SYSTEM(); CHECK(get("%d.fault", (d)->gpu)); CHECK(get("%d.fault.%s", (d)->gpu, __func__))

int nvmlInitWithFlags(unsigned flags) { (void)flags; SYSTEM(); return SUCCESS; }
int nvmlSystemGetDriverVersion(char *to, unsigned size) { SYSTEM(); return copy(get("driver"), to, size); }
int nvmlSystemGetNVMLVersion(char *to, unsigned size) { SYSTEM(); return copy(get("nvml"), to, size); }
int nvmlSystemGetCudaDriverVersion_v2(unsigned *to) { SYSTEM(); return give(get("cuda"), to); }
int nvmlDeviceGetCount_v2(unsigned *to) { SYSTEM(); return give(get("count"), to); }

int nvmlDeviceGetHandleByPciBusId_v2(const char *address, device **to) {
    SYSTEM();
    unsigned want[4], have[4];
    if (sscanf(address, "%x:%x:%x.%x", want, want + 1, want + 2, want + 3) != 4) return 2;
    for (int gpu = 0; gpu < (int)number(get("count")); gpu++) {
        sscanf(get("%d.pci", gpu), "%x:%x:%x.%x", have, have + 1, have + 2, have + 3);
        if (memcmp(want, have, sizeof want)) continue;
        *to = &devices[gpu][0];
        ON(*to);
        return SUCCESS;
    }
    return NOT_FOUND;
}

int nvmlDeviceGetUUID(device *d, char *to, unsigned size) {
    ON(d);
    return copy(d->slot < 0 ? get("%d.uuid", d->gpu) : get("%d.slot.%d.uuid", d->gpu, d->slot), to, size);
}

int nvmlDeviceGetName(device *d, char *to, unsigned size) {
    ON(d);
    return copy(d->slot < 0 ? get("%d.name", d->gpu) : get("%d.slot.%d.name", d->gpu, d->slot), to, size);
}

int nvmlDeviceGetIndex(device *d, unsigned *to) { ON(d); return give(get("%d.index", d->gpu), to); }

int nvmlDeviceGetMemoryInfo(device *d, memory_v1 *to) {
    ON(d);
    to->total = number(get("%d.memory", d->gpu));
    to->used = number(get("%d.used", d->gpu)) + number(get("%d.reserved", d->gpu));
    to->free = to->total - to->used;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(device *d, memory_v2 *to) {
    ON(d);
    if (to->version != (sizeof *to | 2u << 24)) return 25;
    to->total = number(get("%d.memory", d->gpu));
    to->used = number(get("%d.used", d->gpu));
    to->reserved = number(get("%d.reserved", d->gpu));
    to->free = to->total - to->used - to->reserved;
    return SUCCESS;
}

static int processes(device *d, unsigned *count, process *to) {
    unsigned found = 0, room = *count;
    const char *pid;
    while ((pid = get("%d.process.%u.pid", d->gpu, found))) {
        const char *memory = get("%d.process.%u.memory", d->gpu, found);
        if (to && found < room) to[found] = (process){number(pid), memory ? number(memory) : ~0ull, ~0u, ~0u};
        found++;
    }
    *count = found;
    return found > room || (!to && found) ? INSUFFICIENT_SIZE : SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(device *d, unsigned *count, process *to) { ON(d); return processes(d, count, to); }
int nvmlDeviceGetComputeRunningProcesses_v2(device *d, unsigned *count, process *to) { ON(d); return processes(d, count, to); }

int nvmlDeviceGetRemappedRows(device *d, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    ON(d);
    *corrected = *uncorrected = 0;
    *pending = number(get("%d.rows.pending", d->gpu));
    *failed = number(get("%d.rows.failed", d->gpu));
    return SUCCESS;
}

int nvmlDeviceGetRetiredPagesPendingStatus(device *d, unsigned *to) { ON(d); return give(get("%d.retiring", d->gpu), to); }

int nvmlDeviceGetTotalEccErrors(device *d, unsigned type, unsigned counter, unsigned long long *to) {
    ON(d);
    *to = type == 1 && counter == 0 ? number(get("%d.ecc", d->gpu)) : 0; /* uncorrected, since the driver was loaded */
    return SUCCESS;
}

int nvmlDeviceGetMemoryAffinity(device *d, unsigned size, unsigned long *set, unsigned scope) {
    ON(d);
    const char *node = get("%d.node", d->gpu);
    if (!node || scope != 0) return NOT_SUPPORTED;
    if (number(node) / 64 >= size) return INSUFFICIENT_SIZE;
    set[number(node) / 64] |= 1ul << number(node) % 64;
    return SUCCESS;
}

int nvmlDeviceGetCpuAffinity(device *d, unsigned size, unsigned long *set) {
    ON(d);
    const char *cpus = get("%d.cpus", d->gpu);
    if (!cpus) return NOT_SUPPORTED;
    for (char *rest = (char *)cpus; *rest; rest += *rest == ',') {
        unsigned long cpu = strtoul(rest, &rest, 10);
        if (cpu / 64 < size) set[cpu / 64] |= 1ul << cpu % 64;
    }
    return SUCCESS;
}

int nvmlDeviceGetMigMode(device *d, unsigned *now, unsigned *pending) {
    ON(d);
    const char *next = get("%d.mig.pending", d->gpu);
    int code = give(get("%d.mig", d->gpu), now);
    *pending = next ? number(next) : *now;
    return code;
}

int nvmlDeviceGetMaxMigDeviceCount(device *d, unsigned *to) { ON(d); return give(get("%d.slots", d->gpu), to); }

int nvmlDeviceGetMigDeviceHandleByIndex(device *d, unsigned index, device **to) {
    ON(d);
    if (index >= SLOTS || !get("%d.slot.%u.name", d->gpu, index)) return NOT_FOUND;
    *to = &devices[d->gpu][index + 1];
    return SUCCESS;
}

int nvmlDeviceGetGpuInstanceId(device *d, unsigned *to) { ON(d); *to = d->slot; return d->slot < 0 ? NOT_SUPPORTED : SUCCESS; }

int nvmlDeviceGetGpuInstanceById(device *d, unsigned id, device **to) {
    ON(d);
    if (d->slot >= 0 || id >= SLOTS) return NOT_FOUND;
    *to = &devices[d->gpu][id + 1];
    return SUCCESS;
}

int nvmlGpuInstanceGetInfo(device *d, instance_info *to) {
    ON(d);
    *to = (instance_info){&devices[d->gpu][0], d->slot, 0, number(get("%d.slot.%d.start", d->gpu, d->slot)), 0};
    return SUCCESS;
}

int nvmlDeviceGetNvLinkState(device *d, unsigned link, unsigned *to) {
    ON(d);
    *to = get("%d.link.%u.type", d->gpu, link) != NULL;
    return get("%d.link.0.type", d->gpu) ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(device *d, unsigned link, unsigned *to) {
    ON(d);
    return give(get("%d.link.%u.type", d->gpu, link), to);
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(device *d, unsigned link, pci_info *to) {
    ON(d);
    memset(to, 0, sizeof *to);
    return copy(get("%d.link.%u.pci", d->gpu, link), to->bus_id, sizeof to->bus_id);
}

int nvmlDeviceGetTopologyCommonAncestor(device *a, device *b, unsigned *to) {
    ON(a);
    return give(get("%d.ancestor.%d", a->gpu, b->gpu), to);
}
