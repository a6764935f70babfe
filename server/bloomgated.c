/* bloomgated.c - the service: reads its settings, starts, serves, stops. */
int main(void)
{
    return 0;
}
