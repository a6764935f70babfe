#include "bloomgate/version.h"

const char *bg_version(void)
{
    return BG_VERSION;
}
