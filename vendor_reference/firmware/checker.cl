// Checks commands in a single work item.
//   sizes: Sizes of the memory of all commands' `Place` fields, in bytes, one command after another.
//   wrong: 0 if all commands are valid; otherwise the number of the first invalid command, from 1, and the value that
//   its check returned.
__kernel __attribute__((reqd_work_group_size(1, 1, 1), vec_type_hint(float8))) void check_commands(
    const __global uint* commands, const uint num_commands, const __global ulong* sizes,
    const __global uchar* constants, __global uint* wrong) {
  Check check = {sizes, constants};
  for (uint i = 0; i < num_commands; ++i, commands += commands[1]) {
    const uint found = check_command(&check, commands);
    if (found != FITS) {
      wrong[0] = i + 1;
      wrong[1] = found;
      return;
    }
    check.sizes += count_places(commands);
  }
  wrong[0] = 0;
}
