/* SPDX-License-Identifier: Apache-2.0 */

/* Tells libvirt that the files of machines are shared, which only a network's
 * file system says of itself: daemons of one machine share them, too. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

int statfs64(const char *path, struct statfs64 *found)
{
    int (*real)(const char *, struct statfs64 *) =
        (int (*)(const char *, struct statfs64 *))dlsym(RTLD_NEXT, "statfs64");
    const char *shared = getenv("SHARED_FILES");
    int status = real(path, found);

    if (status == 0 && shared && !strncmp(path, shared, strlen(shared)))
        found->f_type = NFS_SUPER_MAGIC;
    return status;
}
