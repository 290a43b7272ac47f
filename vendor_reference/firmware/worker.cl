// The persistent kernel: each work group is a worker, and all of them go through the same commands.
//
// A command's units are in parts, the same share of them for each command. A worker claims units of its own part, then
// helps with the others: so it mostly reads what it has written itself, which its core has in its cache. When all units
// are claimed, it waits for those that other workers have claimed. So it only waits for workers that run: also where
// work groups run one after another, all of them end.
// `begin` is the first word of the first command. `counters` has FAULT_WORDS of `report_index`, then for each command
// the units claimed of each part and those done, and one number more, the workers that have left; all lie LINE words
// apart, since cores that write to one line of their caches wait for each other. The numbers are 0 between runs.
// The hint keeps Intel's driver from trying to join work items to vectors: a build takes a third of the time.
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
