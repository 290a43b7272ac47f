// The persistent kernel: each work group is a worker, and all workers go through the same commands.
//
// The units of a command are divided into parts; a part has the same share of the units of each command. A worker
// first claims units of its own part, and then helps with the other parts. Thus a worker mostly reads data that it has
// written itself, which are in the cache of its core. When all units are claimed, the worker waits for the units that
// other workers have claimed. Workers therefore wait only for workers that are running, and the kernel also ends if
// work groups run one after another.
// `begin` is the index of the first command's first word. `counters` begins with FAULT_WORDS for `report_index`. For
// each command follow the number of claimed units of each part and the number of finished units. The last counter is
// the number of workers that have finished. Counters lie LINE words apart, since cores that write to the same cache
// line slow each other down. All counters are 0 between runs.
// The vec_type_hint keeps Intel's driver from trying to vectorize over work items, which makes a build three times as
// fast.
__kernel __attribute__((reqd_work_group_size(1, 1, 1), vec_type_hint(float8))) void run_commands(
    const __global uint* commands, const uint begin, const uint num_commands,
    volatile __global Counter* counters, REGION_ARGUMENTS) {
  Core core = {{REGION_NAMES}, get_num_groups(0), 0, 0, counters};
  counters += FAULT_WORDS;
  core.scratch = (__global float*)core.regions[REGIONS - 1] + get_group_id(0) * SCRATCH;
  const uint parts = min(core.num_workers, (uint)MOST_PARTS);
  const __global uint* command = commands + begin;
  for (uint i = 0; i < num_commands; ++i, command += command[1]) {
    core.command = (uint)(command - commands);
    const uint units = count_units(&core, command);
    if (core.num_workers == 1) {
      for (uint unit = 0; unit < units; ++unit) run_unit(&core, command, unit);
      continue;
    }
    volatile __global Counter* const claimed = counters + LINE * (parts + 1) * i;
    volatile __global Counter* const done = claimed + LINE * parts;
    uint count = 0;
    for (uint p = 0; p < parts; ++p) {
      const uint part = (get_group_id(0) + p) % parts;
      const uint first = (ulong)units * part / parts, end = (ulong)units * (part + 1) / parts;
      if (first == end) continue;
      for (uint unit; (unit = first + ADD(claimed + LINE * part, 1)) < end; ++count) run_unit(&core, command, unit);
    }
    if (count) ADD(done, count);
    while (READ(done) < units) {
    }
  }
  const uint last = LINE * (parts + 1) * num_commands;
  if (core.num_workers > 1 && ADD(counters + last, 1) == core.num_workers - 1)
    for (uint i = 0; i <= last; i += LINE) CLEAR(counters + i);
}
